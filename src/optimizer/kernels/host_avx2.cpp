// Compiled with the flags of this instruction set (CMakeLists.txt).
#define SPILLWAY_ISA_TABLE kAvx2Kernels
#define SPILLWAY_ISA Isa::kAvx2
#include "optimizer/kernels/host_loops.inc"
