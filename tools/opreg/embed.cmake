# SPDX-License-Identifier: MIT
# cmake -DOUT=FILE.c -DNAME=N -DHEADER=H "-DFILES=PATH;..." -P embed.cmake: the files as arrays of one
# C source, listed as `const N_file N_files[]`, which H declares.
set(text "/* Written by embed.cmake. */\n#include \"${HEADER}\"\n\n")
set(rows "")
set(index 0)
foreach(path IN LISTS FILES)
  get_filename_component(file ${path} NAME)
  file(READ ${path} hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND text "static const unsigned char file_${index}[] = {\n${hex}0};\n\n")
  string(APPEND rows "    {\"${file}\", (const char *)file_${index}},\n")
  math(EXPR index "${index} + 1")
endforeach()
string(APPEND text "const ${NAME}_file ${NAME}_files[] = {\n${rows}};\n")
string(APPEND text "const size_t ${NAME}_file_count = ${index};\n")
file(WRITE ${OUT} "${text}")
