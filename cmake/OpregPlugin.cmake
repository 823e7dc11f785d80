# SPDX-License-Identifier: MIT
# opreg_add_plugin(): a plugin library and its manifest, both from the plugin's kernels.inc.
#
#   opreg_add_plugin(NAME cuda-sm60           # the flag is OPREG_CUDA_SM60
#                    SOURCES plugin.c gemv.c
#                    DEVICE cuda              # cpu, cuda or hip
#                    ARCHS "sm_60"            # device code really inside, space separated
#                    BUILT_WITH "CUDA 12.9"
#                    [KERNELS kernels.inc]    # default: kernels.inc beside the CMakeLists.txt
#                    [SWITCHES jit ...]       # the plugin's own switches
#                    [REMOVED old:new ...]    # flags of earlier versions and what to use now
#                    [NO_INSTALL])            # for tests and examples
#
# Targets: opreg-NAME, the library libopreg-NAME.so with NAME.manifest beside it, installed together
# into <libdir>/opreg; and opreg-NAME-static (not built unless something needs it), whose entry is
# called opreg_NAME_entry, with _ for -, for opreg_add(), made of opreg-NAME-objects.  C sources see
# OPREG_PLUGIN_NAME, OPREG_PLUGIN_ARCHS and OPREG_PLUGIN_BUILT_WITH, so that table and manifest agree.
# Works inside the opreg sources and, after find_package(opreg), in a project of its own.

set(OPREG_PLUGIN_CMAKE_DIR ${CMAKE_CURRENT_LIST_DIR})
include(${CMAKE_CURRENT_LIST_DIR}/OpregOneObject.cmake)

function(opreg_add_plugin)
  cmake_parse_arguments(PARSE_ARGV 0 arg "NO_INSTALL" "NAME;DEVICE;ARCHS;BUILT_WITH;KERNELS"
                        "SOURCES;SWITCHES;REMOVED")
  foreach(needed NAME DEVICE ARCHS BUILT_WITH SOURCES)
    if(NOT arg_${needed})
      message(FATAL_ERROR "opreg_add_plugin: ${needed} is missing")
    endif()
  endforeach()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "opreg_add_plugin(${arg_NAME}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_NAME MATCHES "^[a-z][a-z0-9]*(-[a-z0-9]+)*$")
    message(FATAL_ERROR "opreg_add_plugin: '${arg_NAME}' is not lower-case words joined by hyphens")
  endif()
  if(NOT arg_KERNELS)
    set(arg_KERNELS kernels.inc)
  endif()
  get_filename_component(kernels ${arg_KERNELS} ABSOLUTE)
  string(REPLACE "-" "_" symbol ${arg_NAME})
  set(target opreg-${arg_NAME})

  # Installed plugins lie in the build folder as they will lie in the prefix, so that the command
  # finds them there; the others stay in a folder of their own.
  if(arg_NO_INSTALL OR NOT OPREG_OUTPUT_DIR)
    set(output_dir ${CMAKE_CURRENT_BINARY_DIR})
  else()
    set(output_dir ${OPREG_OUTPUT_DIR}/lib/opreg)
  endif()

  add_library(${target} MODULE ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY ${output_dir}
      LINK_DEPENDS ${OPREG_PLUGIN_CMAKE_DIR}/opreg_plugin.map
      INSTALL_RPATH "")
  target_link_options(${target} PRIVATE -Wl,--no-undefined -Wl,-z,relro -Wl,-z,now
      -Wl,-z,noexecstack -Wl,--version-script=${OPREG_PLUGIN_CMAKE_DIR}/opreg_plugin.map)

  # One object that shows its entry alone, so that an engine can link several plugins that share
  # sources; the objects themselves are for the plugin's own tests.
  add_library(${target}-objects OBJECT EXCLUDE_FROM_ALL ${arg_SOURCES})
  target_compile_definitions(${target}-objects
      PRIVATE opreg_plugin_entry=opreg_${symbol}_entry)
  opreg_one_object(${target}-static ${target}-objects)
  set_target_properties(${target}-static PROPERTIES EXCLUDE_FROM_ALL TRUE)

  foreach(library ${target} ${target}-objects)
    target_link_libraries(${library} PRIVATE opreg::plugin)
    set_target_properties(${library} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON
        C_EXTENSIONS OFF C_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
    target_include_directories(${library} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_compile_definitions(${library} PRIVATE
        "OPREG_PLUGIN_NAME=\"${arg_NAME}\"" "OPREG_PLUGIN_ARCHS=\"${arg_ARCHS}\""
        "OPREG_PLUGIN_BUILT_WITH=\"${arg_BUILT_WITH}\"")
    if(TARGET opreg_flags)
      target_link_libraries(${library} PRIVATE $<BUILD_INTERFACE:opreg_flags>)
    endif()
  endforeach()

  set(manifest ${output_dir}/${arg_NAME}.manifest)
  set(listing ${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}.kernels)
  set(includes $<TARGET_PROPERTY:opreg::plugin,INTERFACE_INCLUDE_DIRECTORIES>)
  add_custom_command(
      OUTPUT ${manifest}
      COMMAND ${CMAKE_C_COMPILER} -std=c11 -E -P -x c "-I$<JOIN:${includes},;-I>"
              "-DOPREG_MANIFEST_KERNELS=\"${kernels}\"" -MD -MF ${listing}.d -MT ${manifest}
              -o ${listing} ${OPREG_PLUGIN_CMAKE_DIR}/opreg_manifest.c
      COMMAND ${CMAKE_COMMAND} -DLISTING=${listing} -DMANIFEST=${manifest} -DNAME=${arg_NAME}
              -DLIBRARY=libopreg-${arg_NAME}.so -DDEVICE=${arg_DEVICE} "-DARCHS=${arg_ARCHS}"
              "-DBUILT_WITH=${arg_BUILT_WITH}" "-DSWITCHES=${arg_SWITCHES}"
              "-DREMOVED=${arg_REMOVED}" -P ${OPREG_PLUGIN_CMAKE_DIR}/OpregManifest.cmake
      DEPENDS ${kernels} ${OPREG_PLUGIN_CMAKE_DIR}/opreg_manifest.c
              ${OPREG_PLUGIN_CMAKE_DIR}/OpregManifest.cmake
      DEPFILE ${listing}.d
      COMMENT "Manifest of ${arg_NAME}"
      COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(${target}-manifest ALL DEPENDS ${manifest})
  add_dependencies(${target} ${target}-manifest)
  set_target_properties(${target} PROPERTIES OPREG_MANIFEST ${manifest})

  if(NOT arg_NO_INSTALL)
    include(GNUInstallDirs)
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/opreg
            COMPONENT ${target})
    install(FILES ${manifest} DESTINATION ${CMAKE_INSTALL_LIBDIR}/opreg COMPONENT ${target})
  endif()
endfunction()
