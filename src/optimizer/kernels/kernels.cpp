#include "optimizer/kernels/kernels.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "spillway/core/error.h"

namespace spillway::optimizer::kernels {
namespace {

struct Form {
  const HostKernels* kernels;
  std::string_view name;
};

constexpr std::array kForms = {Form{&kScalarKernels, "scalar"}, Form{&kAvx2Kernels, "avx2"},
                               Form{&kAvx512Kernels, "avx512"}};

/// The compiler's run-time checks look at CPUID and at the registers that the operating system
/// saves.
bool can_run(Isa isa) {
  __builtin_cpu_init();
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("fma");
  }
  return false;
}

const std::vector<const HostKernels*>& available() {
  static const std::vector<const HostKernels*> forms = [] {
    std::vector<const HostKernels*> result;
    for (const Form& form : kForms) {
      if (can_run(form.kernels->isa)) result.push_back(form.kernels);
    }
    return result;
  }();
  return forms;
}

[[noreturn]] void refuse(std::string_view field, std::string_view wanted) {
  throw UsageError(fmt::format("update format: {}; use {}", field, wanted));
}

void check_master(const UpdateFormat& format) {
  const bool is_fp32 = format.parameter == DType::kFloat32;
  if (!is_fp32 && format.parameter != DType::kBFloat16) {
    refuse(fmt::format("parameters of {} have no kernel", name_of(format.parameter)),
           "bf16 or fp32 parameters");
  }
  if (is_fp32 && format.master != MasterKind::kParameter) {
    refuse("an fp32 parameter has a separate master", "MasterKind::kParameter: it is its own");
  }
  if (!is_fp32 && format.master == MasterKind::kParameter) {
    refuse("a bf16 parameter has no master", "MasterKind::kFloat32 or kRemainder");
  }
}

}  // namespace

void check_format(const UpdateFormat& format) {
  check_master(format);
  if (format.gradient != DType::kFloat32 && format.gradient != DType::kBFloat16) {
    refuse(fmt::format("gradients of {} have no kernel", name_of(format.gradient)),
           "bf16 or fp32 gradients");
  }
}

std::string_view name_of(Isa isa) { return kForms[static_cast<std::size_t>(isa)].name; }

const HostKernels& host_kernels() { return *available().back(); }

const HostKernels& host_kernels(std::string_view name) {
  return select_host_kernels(name, available());
}

const HostKernels& select_host_kernels(std::string_view name,
                                       std::span<const HostKernels* const> available) {
  if (name == "auto") return *available.back();
  std::string names = "auto";
  for (const HostKernels* kernels : available) {
    if (name_of(kernels->isa) == name) return *kernels;
    names += fmt::format(", {}", name_of(kernels->isa));
  }
  throw ConfigError(
      fmt::format("host kernel '{}' cannot run on this CPU; use one of {}", name, names));
}

std::span<const HostKernels* const> available_host_kernels() { return available(); }

}  // namespace spillway::optimizer::kernels
