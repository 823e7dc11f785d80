# SPDX-License-Identifier: MIT
# Debian packages by CPack, one a component: libopreg0, libopreg-dev, opreg-tools, and
# opreg-plugin-NAME for each device plugin that was built.  scripts/package makes them.
set(OPREG_PACKAGE_CONTACT "opreg <opreg@localhost>" CACHE STRING "Maintainer field of packages")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME opreg)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT ${OPREG_PACKAGE_CONTACT})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # of the library itself each package says so below
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")

# opreg_package(COMPONENT PACKAGE SECTION DEPENDS SUMMARY)
macro(opreg_package component package section depends summary)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}")
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}")
  list(APPEND CPACK_COMPONENTS_ALL ${component})
endmacro()

set(library libopreg${PROJECT_VERSION_MAJOR})
set(CPACK_COMPONENTS_ALL "")
opreg_package(runtime ${library} libs "" "operator registry for LLM inference engines: the library")
opreg_package(dev libopreg-dev libdevel "${library} (= ${PROJECT_VERSION})"
              "operator registry for LLM inference engines: headers, static library, CMake files")
get_cmake_property(components COMPONENTS)
if("tools" IN_LIST components)
  opreg_package(tools opreg-tools utils "${library} (>= ${PROJECT_VERSION})"
                "operator registry for LLM inference engines: the command opreg")
endif()
list(FILTER components INCLUDE REGEX "^opreg-")
foreach(component IN LISTS components)
  if(component STREQUAL "opreg-cuda-sm60" AND OPREG_SM60_PTX)
    continue() # embeds PTX, for tests
  endif()
  string(REGEX REPLACE "^opreg-" "" name ${component})
  opreg_package(${component} opreg-plugin-${name} libs
                "${library} (>= ${PROJECT_VERSION})"
                "operator registry for LLM inference engines: the plugin ${name}")
endforeach()
include(CPack)
