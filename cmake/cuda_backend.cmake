# The CUDA backend, in three parts. dawn9_cuda_rules includes no vendor header and is built everywhere: the tests run it
# with simulated kernels. dawn9_cudnn is the thin layer over cuDNN, built if cuDNN 9.11 or later, cuBLAS and the headers
# of cuRAND and of CUDA's runtime are found: the tests check that cuDNN accepts its descriptions. dawn9-cuda.so is the
# module, built if nvcc has also built the kernels. It loads cuBLAS's large library only for networks that need it, and
# NCCL's only if a run has several processes, from the folders that CMake found. Without NCCL several processes add
# their gradients through host memory.
file(GLOB CUDA_BACKEND_SOURCES CONFIGURE_DEPENDS engine/backends/cuda/*.c)
set(CUDA_VENDOR_SOURCES ${CUDA_BACKEND_SOURCES})
list(FILTER CUDA_BACKEND_SOURCES EXCLUDE REGEX "/(runtime|module|cudnn|conv_cudnn|cublas|nccl)\\.c$")
list(FILTER CUDA_VENDOR_SOURCES INCLUDE REGEX "/(runtime|module|conv_cudnn|cublas)\\.c$")

add_library(dawn9_cuda_rules STATIC ${CUDA_BACKEND_SOURCES})
target_link_libraries(dawn9_cuda_rules PUBLIC dawn9_engine)

# Cached choices of tuning among our own kernels are valid only for these sources.
file(GLOB TIMED_SOURCES CONFIGURE_DEPENDS kernels/cuda/* kernels/formulas/* kernels/*.h)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/cuda_kernels.h
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUT=${PROJECT_BINARY_DIR}/cuda_kernels.h
          -P ${PROJECT_SOURCE_DIR}/cmake/kernels.cmake
  DEPENDS ${TIMED_SOURCES} engine/backends/cuda/norm.c cmake/cuda.cmake cmake/kernels.cmake VERBATIM)
target_sources(dawn9_cuda_rules PRIVATE ${PROJECT_BINARY_DIR}/cuda_kernels.h)
target_include_directories(dawn9_cuda_rules PRIVATE ${PROJECT_BINARY_DIR})

if(DAWN9_CUDA)
  set(cuda_places $ENV{CUDA_HOME} /usr/local/cuda /usr/local/cuda/targets/x86_64-linux)
  find_path(CUDART_INCLUDE cuda_runtime_api.h HINTS ${cuda_places} PATH_SUFFIXES include)
  find_library(CUDART_LIBRARY cudart_static HINTS ${cuda_places} PATH_SUFFIXES lib64 lib)
  find_path(CUDNN_INCLUDE cudnn_graph.h HINTS ${cuda_places} PATH_SUFFIXES include)
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${cuda_places} PATH_SUFFIXES lib64 lib)
  find_path(CUBLAS_INCLUDE cublasLt.h HINTS ${cuda_places} PATH_SUFFIXES include)
  find_path(CURAND_INCLUDE curand_philox4x32_x.h HINTS ${cuda_places} PATH_SUFFIXES include)
  find_library(CUBLAS_LIBRARY cublasLt HINTS ${cuda_places} PATH_SUFFIXES lib64 lib)
  find_path(NCCL_INCLUDE nccl.h HINTS ${cuda_places} PATH_SUFFIXES include)
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${cuda_places} PATH_SUFFIXES lib64 lib)
endif()

# 9.11 is the first version that can describe a device which is not in the machine (cudnn.c).
if(CUDNN_INCLUDE AND EXISTS ${CUDNN_INCLUDE}/cudnn_version.h)
  file(STRINGS ${CUDNN_INCLUDE}/cudnn_version.h cudnn_numbers REGEX "define CUDNN_(MAJOR|MINOR) ")
  string(REGEX REPLACE "[^0-9]*([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2" CUDNN_VERSION "${cudnn_numbers}")
endif()

# cudnn.h includes cuda_runtime_api.h.
if(DAWN9_CUDA AND CUDART_INCLUDE AND CUBLAS_INCLUDE AND CUBLAS_LIBRARY AND CURAND_INCLUDE AND CUDNN_LIBRARY AND CUDNN_VERSION VERSION_GREATER_EQUAL 9.11)
  add_library(dawn9_cudnn STATIC engine/backends/cuda/cudnn.c)
  target_include_directories(dawn9_cudnn SYSTEM PUBLIC ${CUDNN_INCLUDE} ${CUDART_INCLUDE})
  target_link_libraries(dawn9_cudnn PUBLIC dawn9_cuda_rules ${CUDNN_LIBRARY})
else()
  message(STATUS "cuDNN 9.11 or later, cuBLAS and cuRAND's headers not found or not asked for: dawn9 is built without the CUDA backend")
endif()

if(TARGET dawn9_cudnn AND TARGET dawn9_cuda_kernels AND CUDART_LIBRARY)
  add_library(dawn9-cuda MODULE ${CUDA_VENDOR_SOURCES})
  get_filename_component(library_folders ${CUBLAS_LIBRARY} DIRECTORY)
  if(NCCL_INCLUDE AND NCCL_LIBRARY)
    target_sources(dawn9-cuda PRIVATE engine/backends/cuda/nccl.c)
    target_compile_definitions(dawn9-cuda PRIVATE DAWN9_NCCL=1)
    target_include_directories(dawn9-cuda SYSTEM PRIVATE ${NCCL_INCLUDE})
    get_filename_component(nccl_folder ${NCCL_LIBRARY} DIRECTORY)
    list(APPEND library_folders ${nccl_folder})
    list(REMOVE_DUPLICATES library_folders)
  else()
    message(STATUS "NCCL not found: on several GPUs gradients are added through host memory")
  endif()
  set_target_properties(dawn9-cuda PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
                        INSTALL_RPATH_USE_LINK_PATH ON BUILD_RPATH "${library_folders}" INSTALL_RPATH "${library_folders}")
  target_include_directories(dawn9-cuda SYSTEM PRIVATE ${CUBLAS_INCLUDE} ${CURAND_INCLUDE})
  # CUDA's runtime is linked statically, so that a machine need not have it. It needs librt and pthread.
  target_link_libraries(dawn9-cuda PRIVATE dawn9_cudnn dawn9_cuda_rules dawn9_cuda_kernels ${CUDART_LIBRARY} rt pthread)
  install(TARGETS dawn9-cuda DESTINATION ${CMAKE_INSTALL_LIBDIR}/dawn9 COMPONENT cuda)
  file(STRINGS ${CUDART_INCLUDE}/cuda_runtime_api.h version REGEX "define CUDART_VERSION ")
  string(REGEX REPLACE ".* 0*([0-9]+)$" "\\1" version "${version}") # 12040
  math(EXPR CUDA_MAJOR "${version} / 1000")
  math(EXPR CUDA_MINOR "${version} % 1000 / 10")
endif()
