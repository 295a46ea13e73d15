// What the formats that are not exact do to learning: a noisy regression, format by format.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "optimizer/kernels/kernels.h"

namespace spillway::optimizer::kernels {
namespace {

constexpr std::int64_t kSize = 2048;
constexpr int kSteps = 600;

/// Curvatures over four orders of magnitude, so that second moments of one block differ by eight.
float curvature(std::size_t i) {
  return std::pow(10.0F, -2.0F + 4.0F * static_cast<float>(i % 97) / 96.0F);
}

class Regression {
 public:
  explicit Regression(const UpdateFormat& format)
      : format_(format),
        parameter_(kSize, 0.0F),
        gradient_(kSize),
        exp_avg_(4 * kSize),
        exp_avg_sq_(4 * kSize),
        scale_(kSize / kQuantBlock),
        scale_sq_(kSize / kQuantBlock) {}

  /// The mean weighted squared distance from the target, 1, after kSteps noisy steps.
  double train() {
    std::mt19937 random(1);
    std::normal_distribution<float> noise(0.0F, 0.3F);
    SlotSettings group{.lr = 5e-3, .beta2 = 0.99};
    SlotState state;
    for (int step = 0; step < kSteps; ++step) {
      for (std::size_t i = 0; i < gradient_.size(); ++i) {
        gradient_[i] = curvature(i) * (parameter_[i] - 1.0F + noise(random));
      }
      StepScalars scalars;
      prepare_steps({}, {}, {&group, 1}, {&state, 1}, {&scalars, 1});
      host_kernels().update(format_, item(), 0, kSize, scalars, ParameterStore::kCached);
    }
    return loss();
  }

 private:
  UpdateItem item() {
    return {.parameter = parameter_.data(),
            .gradient = gradient_.data(),
            .exp_avg = exp_avg_.data(),
            .exp_avg_sq = exp_avg_sq_.data(),
            .exp_avg_scale = scale_.data(),
            .exp_avg_sq_scale = scale_sq_.data(),
            .num_elements = kSize};
  }

  [[nodiscard]] double loss() const {
    double sum = 0.0;
    for (const float p : parameter_) sum += (p - 1.0) * (p - 1.0);
    return sum / static_cast<double>(kSize);
  }

  UpdateFormat format_;
  std::vector<float> parameter_, gradient_;
  std::vector<std::byte> exp_avg_, exp_avg_sq_;
  std::vector<float> scale_, scale_sq_;
};

double loss_with(MomentFormat exp_avg, MomentFormat exp_avg_sq) {
  return Regression({.parameter = DType::kFloat32,
                     .gradient = DType::kFloat32,
                     .master = MasterKind::kParameter,
                     .exp_avg = exp_avg,
                     .exp_avg_sq = exp_avg_sq})
      .train();
}

TEST(MomentFormats, narrow_moments_learn_as_well_as_wide_ones) {
  const double exact = loss_with(MomentFormat::kFloat32, MomentFormat::kFloat32);
  ASSERT_LT(exact, 0.02);  // from 1 at the start
  for (const MomentFormat format : {MomentFormat::kBFloat16, MomentFormat::kBlock8}) {
    const double narrow = loss_with(format, format);
    EXPECT_NE(narrow, exact);
    EXPECT_NEAR(narrow, exact, 0.1 * exact) << static_cast<int>(format);
  }
}

}  // namespace
}  // namespace spillway::optimizer::kernels
