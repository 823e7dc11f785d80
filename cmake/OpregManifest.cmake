# SPDX-License-Identifier: MIT
# Run by opreg_add_plugin: writes a manifest from the preprocessed list of kernels.
cmake_minimum_required(VERSION 3.22)
file(READ ${LISTING} listing)
if(NOT listing MATCHES "opreg_manifest_abi ([0-9]+)u ([0-9]+)u")
  message(FATAL_ERROR "${LISTING}: no ABI version in it")
endif()
set(abi ${CMAKE_MATCH_1}.${CMAKE_MATCH_2})
string(REGEX MATCHALL "opreg_manifest_kernel [A-Za-z0-9_]+" lines "${listing}")
set(kernels "")
foreach(line IN LISTS lines)
  string(REPLACE "opreg_manifest_kernel " "" kernel "${line}")
  if(NOT kernel MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "${NAME}: kernel name '${kernel}' is not lower case")
  endif()
  if(kernel IN_LIST kernels)
    message(FATAL_ERROR "${NAME}: kernel '${kernel}' is listed twice")
  endif()
  if(kernel IN_LIST SWITCHES)
    message(FATAL_ERROR "${NAME}: '${kernel}' is a kernel and a switch")
  endif()
  list(APPEND kernels ${kernel})
endforeach()
if(NOT kernels)
  message(FATAL_ERROR "${NAME}: its kernels.inc lists no OPREG_KERNEL")
endif()
list(JOIN kernels " " kernels)

set(text "manifest = 1
name = ${NAME}
library = ${LIBRARY}
abi = ${abi}
device = ${DEVICE}
archs = ${ARCHS}
built_with = ${BUILT_WITH}
kernels = ${kernels}
")
foreach(key SWITCHES REMOVED)
  if(${key})
    list(JOIN ${key} " " words)
    string(TOLOWER ${key} name)
    string(APPEND text "${name} = ${words}\n")
  endif()
endforeach()
file(WRITE ${MANIFEST} "${text}")
