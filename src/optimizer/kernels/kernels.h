// The host forms of the update and norm kernels. cuda/kernels.h has the same for device memory.
//
// All forms give the same bits: arithmetic.h, step.h and norm.h are the definition.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "optimizer/kernels/formats.h"
#include "optimizer/kernels/host_form.h"
#include "optimizer/kernels/norm.h"
#include "optimizer/kernels/step.h"

namespace spillway::optimizer::kernels {

/// "scalar", "avx2", "avx512".
[[nodiscard]] std::string_view name_of(Isa isa);

/// The best form that this CPU and operating system can run.
[[nodiscard]] const HostKernels& host_kernels();

/// `name` is "auto", "scalar", "avx2" or "avx512". Throws ConfigError, which lists what this CPU
/// has, for a form that cannot run here or an unknown name.
[[nodiscard]] const HostKernels& host_kernels(std::string_view name);

/// host_kernels(name) on a CPU that can run `available`, best last.
[[nodiscard]] const HostKernels& select_host_kernels(std::string_view name,
                                                     std::span<const HostKernels* const> available);

/// Every form that can run here, scalar first.
[[nodiscard]] std::span<const HostKernels* const> available_host_kernels();

/// Combines the partial sums of all blocks.
[[nodiscard]] double reduce_partial_sums(std::span<const double> partial_sums);

/// Host forms of step.h, compiled without contraction.
[[nodiscard]] StepOutcome step_outcome(double sum_of_squares, const StepSettings& settings);
void prepare_steps(const StepOutcome& outcome, const StepSettings& settings,
                   std::span<const SlotSettings> groups, std::span<SlotState> states,
                   std::span<StepScalars> scalars);

}  // namespace spillway::optimizer::kernels
