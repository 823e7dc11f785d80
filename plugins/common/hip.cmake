# SPDX-License-Identifier: MIT
# What the HIP plugins share: code objects from NAME.hip, and the plugin that carries them.
#
#   opreg_hip_plugin(ARCH gfx1100 IMAGES baseline_ops ... SOURCES plugin.c ...)
#
# Sources are compiled without HIP's headers and device libraries: nothing of ROCm is needed but a
# clang++ that knows the target.  -ffp-contract=off and the correctly rounded division are the
# contract's float order.

enable_language(ASM)
find_package(Threads REQUIRED)
set(OPREG_HIP_COMMON ${CMAKE_CURRENT_LIST_DIR})
set(OPREG_HIP_FLAGS --cuda-device-only --no-gpu-bundle-output -nogpuinc -nogpulib
    -mcode-object-version=5 -O3 -std=c++17 -ffp-contract=off
    -fhip-fp32-correctly-rounded-divide-sqrt -DBASELINE_PREPARED=0 -Wall -Wextra -Werror)

# opreg_hip_code(ARCH COMPILER OBJECTS_VARIABLE SOURCE...): a code object per source.
function(opreg_hip_code arch compiler objects_variable)
  set(objects "")
  foreach(source IN LISTS ARGN)
    get_filename_component(image ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${image}.co)
    add_custom_command(
        OUTPUT ${object}
        COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${compiler} -x hip --offload-arch=${arch}
                ${OPREG_HIP_FLAGS} -I${CMAKE_CURRENT_SOURCE_DIR} -I${OPREG_HIP_COMMON}
                -I${PROJECT_SOURCE_DIR}/core -I${PROJECT_SOURCE_DIR}/core/include -MD -MF ${object}.d
                -o ${object} -c ${CMAKE_CURRENT_SOURCE_DIR}/${source}
        DEPENDS ${source}
        DEPFILE ${object}.d
        COMMENT "Compiling ${image} for ${arch}" VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(${objects_variable} ${objects} PARENT_SCOPE)
endfunction()

function(opreg_hip_plugin)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "ARCH" "IMAGES;SOURCES")
  set(arch ${arg_ARCH})
  string(TOUPPER ${arch} ARCH)
  set(compiler ${OPREG_HIP_${ARCH}_CLANG})
  set(sources ${arg_IMAGES})
  list(TRANSFORM sources APPEND .hip)
  opreg_hip_code(${arch} ${compiler} objects ${sources})
  set(assembly "/* Written by CMake: the code objects as bytes. */\n.section .rodata\n")
  foreach(image object IN ZIP_LISTS arg_IMAGES objects)
    string(APPEND assembly ".balign 4096\n.globl hip_${image}\n.hidden hip_${image}\n"
           "hip_${image}:\n.incbin \"${object}\"\n")
  endforeach()
  string(APPEND assembly ".section .note.GNU-stack,\"\",@progbits\n")
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/images.S CONTENT "${assembly}")
  set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/images.S PROPERTIES
      GENERATED TRUE OBJECT_DEPENDS "${objects}" LANGUAGE ASM)

  execute_process(COMMAND ${compiler} --version OUTPUT_VARIABLE version)
  string(REGEX MATCH "[a-zA-Z]* *clang version [0-9.]+" version "${version}")
  opreg_add_plugin(NAME hip-${arch}
                   SOURCES ${arg_SOURCES} ${OPREG_HIP_COMMON}/hip_driver.c ${OPREG_HIP_COMMON}/gpu.c
                           ${OPREG_HIP_COMMON}/gpu_io.c ${OPREG_HIP_COMMON}/gpu_formats.c
                           ${OPREG_HIP_COMMON}/baseline.c ${OPREG_HIP_COMMON}/gpu_steps.c
                           ${CMAKE_CURRENT_BINARY_DIR}/images.S
                   DEVICE hip
                   ARCHS "${arch}"
                   BUILT_WITH "${version}")
  foreach(target opreg-hip-${arch} opreg-hip-${arch}-objects)
    target_include_directories(${target} PRIVATE ${OPREG_HIP_COMMON} ${PROJECT_SOURCE_DIR}/core)
    target_compile_definitions(${target} PRIVATE _POSIX_C_SOURCE=200809L)
    target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  endforeach()
  set(OPREG_HIP_OBJECTS ${objects} PARENT_SCOPE)
endfunction()
