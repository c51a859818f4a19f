# If nvcc is found, builds kernels/cuda as the library dawn9_cuda_kernels, for the targets DAWN9_CUDA_ARCHITECTURES.
# Each file has a custom command; CMake's CUDA language is not used. nvcc is slow and works neither with sanitizers nor
# with every compiler, so only the ordinary GCC build uses it.
option(DAWN9_CUDA "Build the CUDA kernels where nvcc is found" ON)
option(DAWN9_CUDA_LINES "Name source lines in the CUDA kernels, for profilers: makes them much larger" OFF)
# Code for 8.0 also runs on 8.6 and 8.9, for which dawn9 has no special kernels. 7.5 is added if the machine has such a
# GPU. Packages are built for `release`, all supported targets. CUDAARCHS is the variable of CMake's own CUDA language;
# its values that name no target (native, all, all-major) are left out.
set(usual "80;90")
if(NOT DEFINED DAWN9_CUDA_ARCHITECTURES)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE found ERROR_QUIET)
  if(found MATCHES "7[.]5")
    set(usual "75;80;90")
  endif()
  string(REGEX REPLACE "-(real|virtual)" "" named "$ENV{CUDAARCHS}")
  set(target "^([0-9]+[af]?|release)$")
  set(others "${named}")
  list(FILTER named INCLUDE REGEX "${target}")
  list(FILTER others EXCLUDE REGEX "${target}")
  list(REMOVE_DUPLICATES named)
  if(named)
    set(usual "${named}")
  endif()
  if(others)
    message(STATUS "CUDAARCHS=$ENV{CUDAARCHS}: not every word names a GPU target such as 80; building for ${usual}")
  endif()
endif()
set(DAWN9_CUDA_ARCHITECTURES "${usual}" CACHE STRING
    "GPU targets; release: 75;80;86;89;90;100;120, as far as nvcc knows them")

# tests/cuda_model compiles the same kernels as C++ for a simulated GPU, on x86-64 if there is a C++ compiler.
include(CheckLanguage)
if(CMAKE_C_COMPILER_ID MATCHES "Clang" AND NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX})
  get_filename_component(DAWN9_COMPILER_FOLDER ${CMAKE_C_COMPILER} DIRECTORY)
  find_program(DAWN9_CLANGXX NAMES clang++ HINTS ${DAWN9_COMPILER_FOLDER})
  if(DAWN9_CLANGXX)
    set(CMAKE_CXX_COMPILER ${DAWN9_CLANGXX})
  endif()
endif()
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
  set(CMAKE_CXX_STANDARD 17)
  set(CMAKE_CXX_STANDARD_REQUIRED ON)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_C_FLAGS_RELWITHDEBINFO}")
endif()

if(DAWN9_CUDA AND NOT DAWN9_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  find_program(DAWN9_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
endif()
if(NOT DAWN9_NVCC)
  message(STATUS "nvcc not found or not asked for: no CUDA objects are built")
  return()
endif()

# All kernels include this cuRAND header (kernels/cuda/philox.h), which distributions package separately from nvcc.
get_filename_component(nvcc_folder ${DAWN9_NVCC} REALPATH)
get_filename_component(nvcc_folder ${nvcc_folder} DIRECTORY)
find_path(CURAND_INCLUDE curand_philox4x32_x.h HINTS ${nvcc_folder}/.. ${nvcc_folder}/../targets/x86_64-linux PATH_SUFFIXES include)
if(NOT CURAND_INCLUDE)
  message(STATUS "curand_philox4x32_x.h of cuRAND not found beside nvcc: no CUDA objects are built")
  return()
endif()

set(nvcc_flags -std=c++17 -O3 -I${PROJECT_SOURCE_DIR} -Xcompiler=-fPIC,-fvisibility=hidden)
if(DAWN9_CUDA_LINES)
  list(APPEND nvcc_flags -lineinfo)
endif()
set(architectures ${DAWN9_CUDA_ARCHITECTURES})
if(architectures STREQUAL "release")
  execute_process(COMMAND ${DAWN9_NVCC} --list-gpu-code OUTPUT_VARIABLE known)
  foreach(architecture 75 80 86 89 90 100 120)
    if(known MATCHES "sm_${architecture}[^0-9]")
      list(APPEND architectures ${architecture})
    endif()
  endforeach()
  list(REMOVE_ITEM architectures release)
endif()
if(NOT architectures)
  message(FATAL_ERROR "DAWN9_CUDA_ARCHITECTURES is empty: name GPU targets such as 80;90, or set DAWN9_CUDA=OFF")
endif()
# Each target gets machine code, which runs on GPUs of its major version from its minor version on, and PTX, from which
# the driver compiles at the first start on a later GPU. The driver takes the newest PTX that the GPU supports; PTX
# older than 9.0 has no clusters.
foreach(architecture ${architectures})
  if(NOT architecture MATCHES "^[0-9]+[af]?$")
    message(FATAL_ERROR "DAWN9_CUDA_ARCHITECTURES: ${architecture} is no GPU target such as 80")
  endif()
  list(APPEND nvcc_flags -gencode=arch=compute_${architecture},code=[sm_${architecture},compute_${architecture}])
endforeach()

file(GLOB CUDA_SOURCES CONFIGURE_DEPENDS kernels/cuda/*.cu)
set(cuda_objects "")
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/cuda)
foreach(source ${CUDA_SOURCES})
  get_filename_component(name ${source} NAME_WE)
  set(object ${PROJECT_BINARY_DIR}/cuda/${name}.o)
  set(own_flags "")
  if(name STREQUAL "batch") # must have the same bits as on the CPU
    set(own_flags --fmad=false)
  endif()
  add_custom_command(OUTPUT ${object} ${object}.ptxas
    COMMAND sh ${PROJECT_SOURCE_DIR}/cmake/nvcc.sh ${object} ${DAWN9_NVCC} ${nvcc_flags} ${own_flags} -MD -MF
            ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} ${PROJECT_SOURCE_DIR}/cmake/nvcc.sh DEPFILE ${object}.d COMMENT "nvcc ${name}.cu" VERBATIM)
  list(APPEND cuda_objects ${object})
endforeach()

add_library(dawn9_cuda_kernels STATIC ${cuda_objects})
set_target_properties(dawn9_cuda_kernels PROPERTIES LINKER_LANGUAGE CXX)
target_include_directories(dawn9_cuda_kernels INTERFACE ${PROJECT_SOURCE_DIR})
