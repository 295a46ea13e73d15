// Compiled with the flags of this instruction set (CMakeLists.txt).
#define SPILLWAY_ISA_TABLE kScalarKernels
#define SPILLWAY_ISA Isa::kScalar
#include "optimizer/kernels/host_loops.inc"
