# SPDX-License-Identifier: MIT
# opreg_one_object(NAME OBJECTS): a static library NAME made of the object library OBJECTS, linked
# into one object in which hidden names are local, so that no other part may clash with them.
function(opreg_one_object name objects)
  set(one ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
  add_custom_command(OUTPUT ${one}
      COMMAND ${CMAKE_LINKER} -r -o ${one} $<TARGET_OBJECTS:${objects}>
      COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${one}
      DEPENDS ${objects} $<TARGET_OBJECTS:${objects}>
      COMMENT "${name} as one object" COMMAND_EXPAND_LISTS VERBATIM)
  add_library(${name} STATIC ${one})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE C)
endfunction()
