# Writes OUT, a C header with D9_CUDA_KERNELS: twelve digits of a hash of the files in SOURCE on which the timings of
# our own kernels depend: their sources, the rule that launches norms, and the compiler's options.
file(GLOB files RELATIVE ${SOURCE} ${SOURCE}/kernels/cuda/* ${SOURCE}/kernels/formulas/* ${SOURCE}/kernels/*.h
     ${SOURCE}/engine/backends/cuda/norm.c ${SOURCE}/cmake/cuda.cmake)
set(all "")
foreach(file ${files})
  file(SHA256 ${SOURCE}/${file} hash)
  string(APPEND all "${file} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 12 hash)
file(WRITE ${OUT} "#define D9_CUDA_KERNELS \"${hash}\"\n")
