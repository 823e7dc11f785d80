# SPDX-License-Identifier: MIT
# What `cmake --install` puts where.  Everything can be moved together afterwards: the package files
# and the command find their neighbours from where they are.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/opreg)
# Components, which are packages in OpregPackage.cmake: runtime is the shared library, dev what
# building against it needs; tools is the default of the folders of programs.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev)

install(TARGETS opreg opreg_archive opreg_plugin EXPORT opreg
        LIBRARY COMPONENT runtime NAMELINK_COMPONENT dev)
if(TARGET opreg_kit)
  install(TARGETS opreg_kit EXPORT opreg)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/core/include/opreg DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/core/formats
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/opreg
        FILES_MATCHING PATTERN "*.h" PATTERN "*.inc" PATTERN "formats.h" EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/core/canonical.h ${PROJECT_SOURCE_DIR}/core/steps.h
              ${PROJECT_SOURCE_DIR}/core/steps_check.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/opreg)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)

install(EXPORT opreg NAMESPACE opreg:: FILE opregTargets.cmake DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/opregConfig.cmake.in
    ${PROJECT_BINARY_DIR}/opregConfig.cmake INSTALL_DESTINATION ${package_dir}
    PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/opregConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/opregConfig.cmake ${PROJECT_BINARY_DIR}/opregConfigVersion.cmake
        ${PROJECT_SOURCE_DIR}/cmake/OpregPlugin.cmake
        ${PROJECT_SOURCE_DIR}/cmake/OpregManifest.cmake
        ${PROJECT_SOURCE_DIR}/cmake/OpregOneObject.cmake
        ${PROJECT_SOURCE_DIR}/cmake/opreg_manifest.c
        ${PROJECT_SOURCE_DIR}/cmake/opreg_plugin.map
        DESTINATION ${package_dir})

# Relative to the .pc file, wherever that is.  An absolute libdir (of a distribution) stays as it is.
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR} OR IS_ABSOLUTE ${CMAKE_INSTALL_INCLUDEDIR})
  set(OPREG_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
  set(OPREG_PC_LIBDIR ${CMAKE_INSTALL_FULL_LIBDIR})
  set(OPREG_PC_INCLUDEDIR ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
  file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" up ${up})
  set(OPREG_PC_PREFIX "\${pcfiledir}/${up}")
  set(OPREG_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(OPREG_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
foreach(pc opreg opreg-static)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${pc}.pc.in ${PROJECT_BINARY_DIR}/${pc}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${pc}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
