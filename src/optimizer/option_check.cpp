#include "optimizer/option_check.h"

#include <fmt/format.h>

#include <cmath>

#include "optimizer/kernels/formats.h"
#include "spillway/core/error.h"

namespace spillway::optimizer {
namespace {

using kernels::MasterKind;
using kernels::MomentFormat;

void check_range(std::string_view key, double value, double low, double high, bool high_included) {
  const bool inside = value >= low && (value < high || (high_included && value == high));
  if (inside) return;
  throw ConfigError(fmt::format("optimizer.{}: {} is outside [{}, {}{}", key, value, low, high,
                                high_included ? "]" : ")"));
}

MomentFormat moment_format(std::string_view key, DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return MomentFormat::kFloat32;
    case DType::kBFloat16:
      return MomentFormat::kBFloat16;
    case DType::kUInt8:
      return MomentFormat::kBlock8;
    default:
      throw ConfigError(fmt::format("optimizer.{}: {} has no kernel; use fp32, bf16 or uint8", key,
                                    name_of(dtype)));
  }
}

void check_own_update(OptimizerOptions& options) {
  if (!options.host_update) return;
  if (options.update == OffloadUpdate::kStream)
    throw ConfigError(
        "optimizer.use_torch_optimizer_for_cpu_offload: the update runs on the host, but "
        "optimizer.offload_update=stream; use host or auto");
  if (options.algorithm != Algorithm::kAdam || options.master != MasterFormat::kFloat32 ||
      options.exp_avg_dtype != DType::kFloat32 || options.exp_avg_sq_dtype != DType::kFloat32)
    throw ConfigError(
        "optimizer.use_torch_optimizer_for_cpu_offload: needs optimizer=adam with fp32 masters, "
        "exp_avg_dtype=fp32 and exp_avg_sq_dtype=fp32");
  options.update = OffloadUpdate::kHost;
}

}  // namespace

OptimizerOptions resolve_options(OptimizerOptions options) {
  constexpr double kInfinity = INFINITY;
  check_range("optimizer_offload_fraction", options.offload_fraction, 0.0, 1.0, true);
  check_range("adam_beta1", options.beta1, 0.0, 1.0, false);
  check_range("adam_beta2", options.beta2, 0.0, 1.0, false);
  check_range("adam_eps", options.eps, 0.0, kInfinity, false);
  check_range("sgd_momentum", options.momentum, 0.0, kInfinity, false);
  check_range("clip_grad", options.clip_grad, 0.0, kInfinity, true);
  if (options.ring_slots < 1)
    throw ConfigError(fmt::format("ring_slots: {}; use at least 1, 4 to overlap both directions",
                                  options.ring_slots));
  check_own_update(options);
  (void)partition_options(options);  // the formats
  return options;
}

PartitionOptions partition_options(const OptimizerOptions& options) {
  PartitionOptions partition;
  partition.fraction = options.offload_fraction;
  partition.chunk_bytes = options.chunk_bytes;
  kernels::UpdateFormat& bf16 = partition.bf16_format;
  bf16.algorithm = options.algorithm;
  bf16.parameter = DType::kBFloat16;
  bf16.master =
      options.master == MasterFormat::kRemainder ? MasterKind::kRemainder : MasterKind::kFloat32;
  bf16.exp_avg = moment_format("exp_avg_dtype", options.exp_avg_dtype);
  bf16.exp_avg_sq = moment_format("exp_avg_sq_dtype", options.exp_avg_sq_dtype);
  partition.fp32_format = bf16;
  partition.fp32_format.parameter = DType::kFloat32;
  partition.fp32_format.master = MasterKind::kParameter;
  kernels::check_format(partition.bf16_format);
  kernels::check_format(partition.fp32_format);
  return partition;
}

}  // namespace spillway::optimizer
