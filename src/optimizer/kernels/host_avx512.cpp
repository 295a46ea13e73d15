// Compiled with the flags of this instruction set (CMakeLists.txt).
#define SPILLWAY_ISA_TABLE kAvx512Kernels
#define SPILLWAY_ISA Isa::kAvx512
#include "optimizer/kernels/host_loops.inc"
