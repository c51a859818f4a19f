# What is installed beside programs and libraries, and the packages that CPack makes of it:
#
#     cpack --config build/CPackConfig.cmake
#
# makes dawn9-VERSION-Linux-x86_64.tar.gz, which runs wherever it is unpacked, and, where dpkg-dev and file are installed,
# dawn9_VERSION_amd64.deb.
install(DIRECTORY configs DESTINATION share/dawn9 FILES_MATCHING PATTERN "*.yaml")
install(FILES README.md CHANGELOG.md LICENSE CITATION.cff DESTINATION share/doc/dawn9)
install(FILES LICENSE DESTINATION share/doc/dawn9 RENAME copyright) # where Debian looks
install(DIRECTORY docs examples DESTINATION share/doc/dawn9 FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png"
        PATTERN "*.c" PATTERN "CMakeLists.txt")

# Man page and completions, where the build has made them.
install(DIRECTORY ${CMAKE_BINARY_DIR}/man/ DESTINATION share/man/man1 OPTIONAL FILES_MATCHING PATTERN "*.1")
install(FILES ${CMAKE_BINARY_DIR}/completions/dawn9.bash DESTINATION share/bash-completion/completions RENAME dawn9
        OPTIONAL)
install(FILES ${CMAKE_BINARY_DIR}/completions/_dawn9 DESTINATION share/zsh/vendor-completions OPTIONAL)
install(FILES ${CMAKE_BINARY_DIR}/completions/dawn9.fish DESTINATION share/fish/vendor_completions.d OPTIONAL)

find_program(DAWN9_DPKG_SHLIBDEPS dpkg-shlibdeps)
find_program(DAWN9_FILE file) # CPack asks it which files are programs
set(CPACK_GENERATOR TGZ)
if(DAWN9_DPKG_SHLIBDEPS AND DAWN9_FILE)
  list(APPEND CPACK_GENERATOR DEB)
endif()
set(CPACK_PACKAGE_NAME dawn9)
set(CPACK_PACKAGE_VENDOR "dawn9 maintainers")
set(CPACK_PACKAGE_CONTACT "dawn9 maintainers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains small image networks to a target accuracy")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_FILE_NAME dawn9-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
if(TARGET dawn9-cuda) # no Debian package has cuDNN: say where it is, and do not depend on it
  get_filename_component(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CUDNN_LIBRARY} DIRECTORY)
endif()
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gnuplot-nox, curl") # the plots of a report; data fetch
include(CPack)
