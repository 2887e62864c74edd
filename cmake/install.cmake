# Headers, both libraries, the command, pkg-config and CMake package files.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/quench DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS quench_shared quench_static EXPORT quench-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET quench_command)
    install(TARGETS quench_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(EXPORT quench-targets NAMESPACE quench:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quench)
configure_package_config_file(cmake/quench-config.cmake.in quench-config.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quench)
write_basic_package_version_file(quench-config-version.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH QN_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/quench.pc.in quench.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/quench-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/quench-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quench)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/quench.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
