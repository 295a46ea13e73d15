#include "contract/optimizer/test_data.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <random>

#include "spillway/core/bf16.h"

namespace spillway::optimizer::kernels {
namespace {

constexpr std::array kMoments = {MomentFormat::kFloat32, MomentFormat::kBFloat16,
                                 MomentFormat::kBlock8};

std::int64_t bytes_of(MomentFormat format) {
  switch (format) {
    case MomentFormat::kFloat32:
      return 4;
    case MomentFormat::kBFloat16:
      return 2;
    case MomentFormat::kBlock8:
      return 1;
  }
  return 0;
}

class ValueSource {
 public:
  ValueSource(Values kind, std::uint64_t seed) : kind_(kind), random_(seed) {}

  float next(float scale) {
    if (kind_ == Values::kOrdinary) return normal_(random_) * scale;
    switch (random_() % 8) {
      case 0:
        return std::bit_cast<float>(static_cast<std::uint32_t>(random_()));
      case 1:
        return std::bit_cast<float>(static_cast<std::uint32_t>(random_()) & 0x807fffffU);
      case 2:
        return kSpecial[random_() % kSpecial.size()];
      default:
        return normal_(random_) * scale;
    }
  }
  std::uint32_t bits() { return static_cast<std::uint32_t>(random_()); }

 private:
  static constexpr std::array kSpecial = {
      0.0F,   -0.0F,  1e-38F,           -1e-38F,           1.1754944e-38F,     3.4028235e38F,
      -1e38F, 1e-20F, __builtin_inff(), -__builtin_inff(), __builtin_nanf(""), 1.0F};
  Values kind_;
  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
};

void fill(GuardedArray& array, bool is_float32, ValueSource& source, float scale) {
  if (is_float32) {
    for (float& x : array.as<float>()) x = source.next(scale);
  } else {
    for (std::uint16_t& x : array.as<std::uint16_t>()) x = float_to_bf16(source.next(scale));
  }
}

/// Moments that a kernel may have left: the second one is not negative.
void fill_moments(GuardedArray& array, GuardedArray& scales, MomentFormat format, bool is_signed,
                  ValueSource& source) {
  for (float& scale : scales.as<float>()) scale = std::abs(source.next(1e-3F));
  if (format == MomentFormat::kBlock8) {
    for (std::uint8_t& code : array.as<std::uint8_t>())
      code = static_cast<std::uint8_t>(source.bits());
    return;
  }
  fill(array, format == MomentFormat::kFloat32, source, 1e-3F);
  if (is_signed) return;
  for (float& x : format == MomentFormat::kFloat32 ? array.as<float>() : std::span<float>()) {
    x = std::abs(x);
  }
  for (std::uint16_t& x :
       format == MomentFormat::kBFloat16 ? array.as<std::uint16_t>() : std::span<std::uint16_t>()) {
    x &= 0x7fffU;
  }
}

}  // namespace

std::vector<UpdateFormat> all_formats() {
  std::vector<UpdateFormat> formats;
  for (const auto algorithm : {Algorithm::kAdam, Algorithm::kSgd}) {
    for (const auto master :
         {MasterKind::kParameter, MasterKind::kFloat32, MasterKind::kRemainder}) {
      for (const auto gradient : {DType::kFloat32, DType::kBFloat16}) {
        for (const auto exp_avg : kMoments) {
          for (const auto exp_avg_sq : kMoments) {
            if (algorithm == Algorithm::kSgd && exp_avg_sq != MomentFormat::kFloat32) continue;
            const auto parameter =
                master == MasterKind::kParameter ? DType::kFloat32 : DType::kBFloat16;
            formats.push_back({algorithm, parameter, gradient, master, exp_avg, exp_avg_sq});
          }
        }
      }
    }
  }
  return formats;
}

std::string describe(const UpdateFormat& format) {
  constexpr std::array kMasterNames = {"own master", "fp32 master", "remainder"};
  constexpr std::array kMomentNames = {"fp32", "bf16", "8-bit"};
  return fmt::format("{}, {} gradients, {}, moments {} and {}",
                     format.algorithm == Algorithm::kAdam ? "adam" : "sgd",
                     name_of(format.gradient),
                     kMasterNames[static_cast<std::size_t>(format.master)],
                     kMomentNames[static_cast<std::size_t>(format.exp_avg)],
                     kMomentNames[static_cast<std::size_t>(format.exp_avg_sq)]);
}

std::vector<std::int64_t> awkward_sizes() {
  return {0,  1,   7,   8,   9,   15,  16,  17,  31,   33,   63,   64,
          65, 105, 255, 256, 257, 511, 513, 999, 1000, 1001, 1557, 4097};
}

ItemArrays make_item(const UpdateFormat& format, std::int64_t num_elements,
                     std::int64_t misalignment, Values values, std::uint64_t seed) {
  ValueSource source(values, seed);
  ItemArrays item;
  item.num_elements = num_elements;
  const bool wide_parameter = format.parameter == DType::kFloat32;
  const bool wide_gradient = format.gradient == DType::kFloat32;
  item.parameter = GuardedArray(num_elements, wide_parameter ? 4 : 2, misalignment);
  fill(item.parameter, wide_parameter, source, 0.02F);
  item.gradient = GuardedArray(num_elements, wide_gradient ? 4 : 2, (misalignment * 3) % 16);
  fill(item.gradient, wide_gradient, source, 1e-2F);

  if (format.master == MasterKind::kFloat32) {
    item.master = GuardedArray(num_elements, 4, (misalignment * 5) % 16);
    fill(item.master, true, source, 0.02F);
  } else if (format.master == MasterKind::kRemainder) {
    item.master = GuardedArray(num_elements, 2, (misalignment * 5) % 16);
    for (auto& x : item.master.as<std::uint16_t>()) x = static_cast<std::uint16_t>(source.bits());
  }

  const std::int64_t num_blocks = (num_elements + kQuantBlock - 1) / kQuantBlock;
  const auto scales = [&](MomentFormat moment) {
    return moment == MomentFormat::kBlock8 ? GuardedArray(num_blocks, 4, misalignment % 4)
                                           : GuardedArray();
  };
  item.exp_avg = GuardedArray(num_elements, bytes_of(format.exp_avg), (misalignment * 7) % 16);
  item.exp_avg_scale = scales(format.exp_avg);
  fill_moments(item.exp_avg, item.exp_avg_scale, format.exp_avg, true, source);
  if (format.algorithm == Algorithm::kAdam) {
    item.exp_avg_sq =
        GuardedArray(num_elements, bytes_of(format.exp_avg_sq), (misalignment * 9) % 16);
    item.exp_avg_sq_scale = scales(format.exp_avg_sq);
    fill_moments(item.exp_avg_sq, item.exp_avg_sq_scale, format.exp_avg_sq, false, source);
  }
  return item;
}

std::vector<ItemArrays> make_items(const UpdateFormat& format, Values values, std::uint64_t seed) {
  std::vector<ItemArrays> items;
  for (const std::int64_t size : awkward_sizes()) {
    const auto index = static_cast<std::int64_t>(items.size());
    // Every other pair of items is aligned in all arrays, as the engine's own memory is.
    const std::int64_t misalignment = index % 4 < 2 ? 0 : index % 16;
    items.push_back(
        make_item(format, size, misalignment, values, seed + static_cast<std::uint64_t>(index)));
    items.back().slot = static_cast<std::int32_t>(index % 2);
  }
  return items;
}

NormArray make_gradient(DType dtype, std::int64_t num_elements, std::int64_t misalignment,
                        std::uint64_t seed) {
  ValueSource source(Values::kOrdinary, seed);
  NormArray array;
  array.dtype = dtype;
  array.num_elements = num_elements;
  const bool is_float32 = dtype == DType::kFloat32;
  array.gradient = GuardedArray(num_elements, is_float32 ? 4 : 2, misalignment);
  fill(array.gradient, is_float32, source, 3.0F);
  return array;
}

std::vector<StepScalars> third_step() {
  const StepSettings settings{.grad_scale = 0.5, .clip_grad = 1.0};
  const std::vector<SlotSettings> groups = {
      {.lr = 3e-4, .weight_decay = 0.1, .momentum = 0.9},
      {.lr = 1e-3, .weight_decay = 0.01, .momentum = 0.8, .decoupled_weight_decay = 0}};
  std::vector<SlotState> states = {{.steps = 2}, {.steps = 2}};
  std::vector<StepScalars> scalars(2);
  prepare_steps(step_outcome(17.0, settings), settings, groups, states, scalars);
  return scalars;
}

void expect_same(std::span<ItemArrays> actual, std::span<ItemArrays> expected) {
  constexpr std::array kNames = {"parameter",  "gradient",      "master",          "exp_avg",
                                 "exp_avg_sq", "exp_avg_scale", "exp_avg_sq_scale"};
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const auto actual_arrays = actual[i].all();
    const auto expected_arrays = expected[i].all();
    for (std::size_t array = 0; array < kNames.size(); ++array) {
      EXPECT_TRUE(actual_arrays[array]->same_bytes(*expected_arrays[array]))
          << kNames[array] << " differs at size " << actual[i].num_elements;
      EXPECT_TRUE(actual_arrays[array]->guards_intact())
          << "written beside " << kNames[array] << " at size " << actual[i].num_elements;
    }
  }
}

}  // namespace spillway::optimizer::kernels
