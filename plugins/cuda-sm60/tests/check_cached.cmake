# SPDX-License-Identifier: MIT
# Holds cached.cmake to its promise, with a compiler that counts its runs.
#
#   cmake -DWORK=folder -P check_cached.cmake
cmake_minimum_required(VERSION 3.22)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK}/include)
file(WRITE ${WORK}/x.cu "#include \"a.h\"\n")
file(WRITE ${WORK}/include/a.h "#include \"b.h\"\n")
file(WRITE ${WORK}/include/b.h "one\n")
file(WRITE ${WORK}/include/unread.h "one\n")
file(WRITE ${WORK}/library "compiler\n")
file(WRITE ${WORK}/compile.cmake "
file(APPEND ${WORK}/runs x)
file(READ ${WORK}/include/b.h text)
foreach(kind cubin ptx ptxas)
  file(WRITE ${WORK}/out.\${kind} \"\${kind} of \${text}\")
endforeach()
")

function(expect runs what option)
  file(REMOVE ${WORK}/out.cubin ${WORK}/out.ptx ${WORK}/out.ptxas)
  execute_process(COMMAND ${CMAKE_COMMAND} -DSOURCE=${WORK}/x.cu -DBASE=${WORK}/out
                          -DKEEP=${WORK}/keep -DCOMPILER=${WORK}/library
                          -P ${CMAKE_CURRENT_LIST_DIR}/../cached.cmake --
                          ${CMAKE_COMMAND} -P ${WORK}/compile.cmake ${option} -I${WORK}/include
                  RESULT_VARIABLE result)
  file(READ ${WORK}/runs done)
  string(LENGTH "${done}" done)
  file(READ ${WORK}/include/b.h text)
  file(READ ${WORK}/out.ptxas report)
  if(NOT result EQUAL 0 OR NOT done EQUAL runs OR NOT report STREQUAL "ptxas of ${text}")
    message(FATAL_ERROR "${what}: result ${result}, ${done} runs of ${runs}, report '${report}'")
  endif()
endfunction()

expect(1 "a first time compiles" -O)
expect(1 "the same again is fetched" -O)
file(WRITE ${WORK}/include/unread.h "two\n")
expect(1 "a file that is not included does not count" -O)
expect(2 "another option compiles" -O2)
file(WRITE ${WORK}/include/b.h "two\n")
expect(3 "a change in an include of an include compiles" -O)
file(WRITE ${WORK}/include/b.h "one\n")
expect(3 "what was once compiled is fetched" -O)
file(WRITE ${WORK}/library "another\n")
expect(4 "another compiler compiles" -O)
