# Builds kernels/cpu/loops/*.c once per x86-64 level. In each build D9_ISA(name) is name_<level>; the table of levels
# and the selection by cpuid are in kernels/cpu/dispatch.c. Other processors use the plain build only.
file(GLOB LOOP_SOURCES CONFIGURE_DEPENDS kernels/cpu/loops/*.c)
# Each activation, cell and tile size in each storage type is a separate unrolled loop. UBSan's checks of each access
# would take most of the time to compile these files, and find no more than AddressSanitizer's.
if(DAWN9_SANITIZE)
  set_source_files_properties(kernels/cpu/loops/norm.c kernels/cpu/loops/recur.c kernels/cpu/loops/winograd.c
                              PROPERTIES COMPILE_OPTIONS -fno-sanitize=undefined)
endif()
file(GLOB KERNEL_SOURCES CONFIGURE_DEPENDS kernels/cpu/*.c)

# AMX if the compiler supports it: D9_AMX (kernels/cpu/dispatch.c).
include(CheckCCompilerFlag)
check_c_compiler_flag("-mamx-tile -mamx-bf16" DAWN9_AMX)
if(DAWN9_AMX)
  file(GLOB AMX_SOURCES CONFIGURE_DEPENDS kernels/cpu/amx/*.c)
  set_source_files_properties(${AMX_SOURCES} PROPERTIES COMPILE_OPTIONS "-O3;-march=x86-64-v4;-mamx-tile;-mamx-bf16")
endif()
add_library(dawn9_kernels STATIC ${KERNEL_SOURCES} ${AMX_SOURCES})
target_compile_definitions(dawn9_kernels PRIVATE $<$<BOOL:${DAWN9_AMX}>:D9_AMX>)
target_link_libraries(dawn9_kernels PUBLIC dawn9_flags)

if(NOT DAWN9_SANITIZE) # sanitizers' checks leave little to vectorise
  set(loop_optimisation -O3)
elseif(CMAKE_C_COMPILER_ID MATCHES "Clang") # checks are calls: inline ones make these files take three times as long
  set(loop_optimisation "SHELL:-mllvm -asan-instrumentation-with-call-threshold=0")
endif()
function(dawn9_isa_level level)
  add_library(dawn9_loops_${level} OBJECT ${LOOP_SOURCES})
  target_link_libraries(dawn9_loops_${level} PRIVATE dawn9_flags)
  # Contraction differs between levels, so only integers and look-ups (augment.c) have the same bits on all of them. GCC
  # vectorises the selections in the exponentials only with -fno-trapping-math. Debug information has lines but no
  # variables, because with variables these unrolled loops take a third longer to compile.
  target_compile_options(dawn9_loops_${level} PRIVATE ${loop_optimisation} $<$<CONFIG:RelWithDebInfo>:-g1>
                         -ffp-contract=fast -fno-trapping-math -fopenmp-simd ${ARGN})
  target_compile_definitions(dawn9_loops_${level} PRIVATE D9_LEVEL=${level})
  target_sources(dawn9_kernels PRIVATE $<TARGET_OBJECTS:dawn9_loops_${level}>)
endfunction()

dawn9_isa_level(plain)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # Under sanitizers only plain and the highest level that this processor runs are built, because another level takes a
  # minute to compile. They do not check the code of levels between these two (loops/lanes.h and stream.h have some for
  # AVX2 only). Tests without sanitizers compare the results of all levels; cpu_conv.c and cpu_kernels.c also check guard
  # bytes after outputs, and cpu_conv.c reads past the end of inputs.
  set(levels v3 v4 v4bf16)
  if(DAWN9_SANITIZE)
    execute_process(COMMAND grep -qw avx512_bf16 /proc/cpuinfo RESULT_VARIABLE without_bf16)
    execute_process(COMMAND grep -qw avx512dq /proc/cpuinfo RESULT_VARIABLE without_avx512)
    if(without_avx512)
      set(levels v3)
    elseif(without_bf16)
      set(levels v4)
    else()
      set(levels v4bf16)
    endif()
  endif()
  set(options_v3 -march=x86-64-v3)
  set(options_v4 -march=x86-64-v4 -mprefer-vector-width=512)
  set(options_v4bf16 ${options_v4} -mavx512bf16)
  foreach(level ${levels})
    dawn9_isa_level(${level} ${options_${level}})
    target_compile_definitions(dawn9_kernels PRIVATE D9_LEVEL_${level})
  endforeach()
  target_compile_definitions(dawn9_kernels PRIVATE D9_X86_LEVELS)
endif()
