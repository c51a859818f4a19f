# Installed files other than programs and libraries, and the packages that CPack makes:
#
#     cpack --config build/CPackConfig.cmake
#
# makes dawn9-VERSION-Linux-x86_64.tar.gz, which runs from any folder, and, if dpkg-dev and file are installed,
# dawn9_VERSION_amd64.deb. If the build has the CUDA backend, the tarball contains it and has the version of CUDA in its
# name (dawn9-VERSION-cuda13-...), and a second package, dawn9-cuda13_VERSION_amd64.deb, contains only the backend. A
# driver runs builds with its own major version of CUDA or an older one, so packages of several versions may be made;
# they exclude each other. Training over MPI is likewise in a package of its own, dawn9-mpi_VERSION_amd64.deb.
install(DIRECTORY configs DESTINATION share/dawn9 FILES_MATCHING PATTERN "*.yaml")
file(GLOB experiments experiments/*.yaml)
install(FILES ${experiments} DESTINATION share/dawn9/experiments)
install(PROGRAMS tools/dawn9.py tools/load_in_pytorch.py DESTINATION share/dawn9/tools)
install(DIRECTORY tests/golden/cases DESTINATION share/dawn9 FILES_MATCHING PATTERN "*.safetensors")
install(FILES README.md CHANGELOG.md LICENSE CITATION.cff DESTINATION share/doc/dawn9)
install(FILES LICENSE DESTINATION share/doc/dawn9 RENAME copyright) # Debian's name of the licence
install(DIRECTORY docs examples DESTINATION share/doc/dawn9 FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png"
        PATTERN "*.c" PATTERN "CMakeLists.txt")

install(PROGRAMS examples/wandb_forward.py DESTINATION share/doc/dawn9/examples)

# Man page and completions, if the build has made them.
install(DIRECTORY ${PROJECT_BINARY_DIR}/man/ DESTINATION share/man/man1 OPTIONAL FILES_MATCHING PATTERN "*.1")
install(FILES ${PROJECT_BINARY_DIR}/completions/dawn9.bash DESTINATION share/bash-completion/completions RENAME dawn9
        OPTIONAL)
install(FILES ${PROJECT_BINARY_DIR}/completions/_dawn9 DESTINATION share/zsh/vendor-completions OPTIONAL)
install(FILES ${PROJECT_BINARY_DIR}/completions/dawn9.fish DESTINATION share/fish/vendor_completions.d OPTIONAL)

if(NOT PROJECT_IS_TOP_LEVEL)
  return() # packages are those of the project that contains dawn9
endif()
find_program(DAWN9_DPKG_SHLIBDEPS dpkg-shlibdeps)
find_program(DAWN9_FILE file) # CPack uses it to find programs
set(CPACK_GENERATOR TGZ)
if(DAWN9_DPKG_SHLIBDEPS AND DAWN9_FILE)
  list(APPEND CPACK_GENERATOR DEB)
endif()
set(CPACK_PACKAGE_NAME dawn9)
set(CPACK_PACKAGE_VENDOR "dawn9 maintainers")
set(CPACK_PACKAGE_CONTACT "dawn9 maintainers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains small networks on images and texts to a target accuracy")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL dawn9)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_DAWN9_PACKAGE_NAME dawn9)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_DAWN9_PACKAGE_RECOMMENDS "gnuplot-nox, curl, unzip") # the plots of a report; data fetch
set(of_cuda "")
if(TARGET dawn9-mpi) # a package of its own, because Open MPI has many dependencies
  list(APPEND CPACK_COMPONENTS_ALL mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_NAME dawn9-mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "dawn9 (= ${PROJECT_VERSION}), openmpi-bin")
  set(CPACK_COMPONENT_MPI_DESCRIPTION "training of one network by several dawn9 processes, over MPI")
endif()
if(TARGET dawn9-cuda)
  set(of_cuda -cuda${CUDA_MAJOR})
  list(APPEND CPACK_COMPONENTS_ALL cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_NAME dawn9-cuda${CUDA_MAJOR})
  set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "dawn9 (= ${PROJECT_VERSION})")
  set(CPACK_DEBIAN_CUDA_PACKAGE_PROVIDES dawn9-cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_CONFLICTS dawn9-cuda)
  string(CONCAT CPACK_COMPONENT_CUDA_DESCRIPTION "CUDA backend of dawn9\n Built with CUDA ${CUDA_MAJOR}.${CUDA_MINOR}. "
         "Needs NVIDIA's driver for CUDA ${CUDA_MAJOR} or a later one, and cuDNN 9 and cuBLAS for CUDA ${CUDA_MAJOR}."
         " Several GPUs use NCCL 2, too.")
  # No Debian package contains cuDNN or this cuBLAS, so the description names them instead of a dependency.
  get_filename_component(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CUDNN_LIBRARY} DIRECTORY)
endif()
set(CPACK_PACKAGE_FILE_NAME dawn9-${PROJECT_VERSION}${of_cuda}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
include(CPack)
