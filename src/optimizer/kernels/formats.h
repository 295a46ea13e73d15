// What the update kernels work on: formats, items and the scalars of a step.
#pragma once

#include <cstdint>

#include "spillway/core/dtype.h"
#include "spillway/optimizer/algorithm.h"

namespace spillway::optimizer::kernels {

/// Where the fp32 master of a parameter is.
enum class MasterKind : unsigned char {
  kParameter,  ///< an fp32 parameter is its own master
  kFloat32,    ///< an fp32 array; the bf16 parameter is written only
  kRemainder,  ///< the lower 16 bits; the bf16 parameter is read and written
};

/// How a moment is stored.
enum class MomentFormat : unsigned char {
  kFloat32,
  kBFloat16,  ///< round to nearest, ties to even
  kBlock8,    ///< block8.h: 8 bits an element and an fp32 scale for each kQuantBlock elements
};

/// Elements that share one scale in MomentFormat::kBlock8; the first block starts at element 0 of
/// the item. A parameter that is cut into items is therefore cut at multiples of it, or its result
/// depends on the cut.
inline constexpr std::int64_t kQuantBlock = 256;

/// What all items of one call have in common.
struct UpdateFormat {
  Algorithm algorithm = Algorithm::kAdam;
  DType parameter = DType::kBFloat16;  ///< bf16 or fp32
  DType gradient = DType::kBFloat16;   ///< bf16 or fp32
  MasterKind master = MasterKind::kFloat32;
  MomentFormat exp_avg = MomentFormat::kFloat32;  ///< SGD: the momentum buffer
  MomentFormat exp_avg_sq = MomentFormat::kFloat32;

  bool operator==(const UpdateFormat&) const = default;
};

/// Throws UsageError if no kernel exists for `format`: it says which field and what is possible.
void check_format(const UpdateFormat& format);

/// A parameter, or a part of one, and its states: arrays of `num_elements`, any alignment that
/// their type allows. Nothing is owned.
struct UpdateItem {
  void* parameter = nullptr;       ///< bf16 or fp32
  const void* gradient = nullptr;  ///< bf16 or fp32; never written
  void* master = nullptr;      ///< fp32 or uint16 remainder; nullptr with MasterKind::kParameter
  void* exp_avg = nullptr;     ///< Adam's first moment, SGD's momentum buffer
  void* exp_avg_sq = nullptr;  ///< Adam's second moment; nullptr with SGD
  float* exp_avg_scale = nullptr;  ///< (ceil(num_elements / kQuantBlock)), kBlock8 only
  float* exp_avg_sq_scale = nullptr;
  std::int64_t num_elements = 0;
  std::int64_t first_piece = 0;  ///< see number_pieces(); the host forms ignore it
  std::int32_t slot = 0;         ///< index into the StepScalars of the step
};

/// Everything that a step needs besides the arrays, rounded to fp32 once by prepare_step(). One per
/// slot: a slot is the set of parameters that share a group and a number of steps.
struct StepScalars {
  float grad_scale = 1.0F;  ///< un-scaling and clipping together
  float beta1 = 0.0F;
  float one_minus_beta1 = 0.0F;
  float beta2 = 0.0F;
  float one_minus_beta2 = 0.0F;
  float decay = 1.0F;               ///< 1 - lr * weight_decay if decoupled, else 1
  float l2 = 0.0F;                  ///< weight_decay if not decoupled, else 0
  float step_size = 0.0F;           ///< lr / (1 - beta1^t)
  float inverse_sqrt_bias2 = 1.0F;  ///< 1 / sqrt(1 - beta2^t)
  float eps = 0.0F;
  float lr = 0.0F;
  float momentum = 0.0F;  ///< SGD
  std::int32_t skip = 0;  ///< not 0: change nothing
};

}  // namespace spillway::optimizer::kernels
