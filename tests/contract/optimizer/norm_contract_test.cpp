// What every form of the norm and of the step's preparation must do.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "contract/optimizer/test_data.h"
#include "spillway/core/bf16.h"

namespace spillway::optimizer::kernels {
namespace {

std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

class NormContract : public KernelContract {};

std::vector<NormArray> many_gradients() {
  std::vector<NormArray> gradients;
  std::uint64_t seed = 1;
  for (const std::int64_t size :
       {0, 1, 7, 8, 9, 100, 1000, 1023, 1024, 1025, 5000, 65535, 65536, 65537, 200000}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      ++seed;
      gradients.push_back(make_gradient(dtype, size, static_cast<std::int64_t>(seed % 5), seed));
    }
  }
  return gradients;
}

TEST_P(NormContract, gives_the_bits_of_the_scalar_form_for_each_gradient_and_for_all) {
  auto gradients = many_gradients();
  const auto scalar = make_host_form(kScalarKernels);
  EXPECT_EQ(bits(form->sum_of_squares(gradients)), bits(scalar->sum_of_squares(gradients)));
  for (NormArray& gradient : gradients) {
    const std::span one(&gradient, 1);
    EXPECT_EQ(bits(form->sum_of_squares(one)), bits(scalar->sum_of_squares(one)))
        << gradient.num_elements;
    EXPECT_TRUE(gradient.gradient.guards_intact());
  }
}

TEST_P(NormContract, is_the_sum_of_squares) {
  for (NormArray& gradient : many_gradients()) {
    long double expected = 0.0L;
    for (std::int64_t i = 0; i < gradient.num_elements; ++i) {
      const auto index = static_cast<std::size_t>(i);
      const long double g = gradient.dtype == DType::kFloat32
                                ? gradient.gradient.as<float>()[index]
                                : bf16_to_float(gradient.gradient.as<std::uint16_t>()[index]);
      expected += g * g;
    }
    const double sum = form->sum_of_squares(std::span(&gradient, 1));
    EXPECT_NEAR(sum, static_cast<double>(expected), 1e-13 * static_cast<double>(expected));
  }
}

TEST_P(NormContract, does_not_depend_on_the_type_that_holds_the_same_values) {
  NormArray narrow = make_gradient(DType::kBFloat16, 70001, 1, 3);
  NormArray wide = make_gradient(DType::kFloat32, 70001, 2, 4);
  for (std::size_t i = 0; i < 70001; ++i) {
    wide.gradient.as<float>()[i] = bf16_to_float(narrow.gradient.as<std::uint16_t>()[i]);
  }
  EXPECT_EQ(bits(form->sum_of_squares(std::span(&narrow, 1))),
            bits(form->sum_of_squares(std::span(&wide, 1))));
}

TEST_P(NormContract, is_finite_exactly_if_every_gradient_is) {
  NormArray array = make_gradient(DType::kFloat32, 70000, 0, 1);
  const auto gradient = array.gradient.as<float>();
  std::ranges::fill(gradient, std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(form->sum_of_squares(std::span(&array, 1))));
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t where : {std::size_t{0}, std::size_t{1023}, std::size_t{69999}}) {
      gradient[where] = bad;
      EXPECT_FALSE(std::isfinite(form->sum_of_squares(std::span(&array, 1)))) << where;
      gradient[where] = 1.0F;
    }
  }
}

StepArrays step_arrays(double sum_of_squares) {
  StepArrays arrays;
  arrays.sum_of_squares = sum_of_squares;
  arrays.settings = {.grad_scale = 1.0 / 3.0, .clip_grad = 0.7};
  for (int slot = 0; slot < 300; ++slot) {
    arrays.groups.push_back({.lr = 1e-3 / (1 + slot),
                             .weight_decay = 0.01 * slot,
                             .beta2 = 0.95,
                             .momentum = 0.9,
                             .decoupled_weight_decay = slot % 2});
    arrays.states.push_back({.steps = slot});
  }
  return arrays;
}

TEST_P(NormContract, prepares_the_same_scalars_as_the_host) {
  for (const double sum : {0.0, 1e-30, 0.3, 25.0, 1e20}) {
    StepArrays actual = step_arrays(sum);
    StepArrays expected = actual;
    form->prepare_steps(actual);
    make_host_form(kScalarKernels)->prepare_steps(expected);
    EXPECT_EQ(bits(actual.outcome.grad_norm), bits(expected.outcome.grad_norm));
    for (std::size_t i = 0; i < actual.scalars.size(); ++i) {
      ASSERT_EQ(std::memcmp(&actual.scalars[i], &expected.scalars[i], sizeof(StepScalars)), 0);
      ASSERT_EQ(actual.states[i].steps, static_cast<std::int64_t>(i) + 1);
    }
  }
}

TEST_P(NormContract, scalars_depend_on_the_count_of_steps_and_the_betas_of_the_step_alone) {
  StepArrays stepped = step_arrays(1.0);
  StepArrays loaded = stepped;
  for (std::size_t i = 0; i < stepped.states.size(); ++i) {
    stepped.states[i].steps = 0;
    loaded.states[i].steps = 99;
  }
  const std::vector<SlotSettings> last = stepped.groups;
  for (int step = 0; step < 100; ++step) {
    stepped.groups = last;
    for (SlotSettings& group : stepped.groups) group.beta1 = step < 99 ? 0.5 : group.beta1;
    form->prepare_steps(stepped);
  }
  form->prepare_steps(loaded);
  for (std::size_t i = 0; i < stepped.scalars.size(); ++i) {
    ASSERT_EQ(std::memcmp(&stepped.scalars[i], &loaded.scalars[i], sizeof(StepScalars)), 0);
    ASSERT_EQ(stepped.states[i].steps, 100);
  }
}

TEST_P(NormContract, a_norm_that_is_not_finite_skips_the_step_and_counts_nothing) {
  for (const double sum :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    StepArrays arrays = step_arrays(sum);
    const StepArrays before = arrays;
    form->prepare_steps(arrays);
    EXPECT_EQ(arrays.outcome.skipped, 1);
    for (std::size_t i = 0; i < arrays.scalars.size(); ++i) {
      ASSERT_NE(arrays.scalars[i].skip, 0);
      ASSERT_EQ(arrays.states[i].steps, before.states[i].steps);
    }
  }
}

TEST_P(NormContract, a_slot_without_a_gradient_is_left_alone) {
  StepArrays arrays = step_arrays(1.0);
  arrays.groups[5].active = 0;
  form->prepare_steps(arrays);
  EXPECT_NE(arrays.scalars[5].skip, 0);
  EXPECT_EQ(arrays.states[5].steps, 5);
  EXPECT_EQ(arrays.scalars[6].skip, 0);
  EXPECT_EQ(arrays.states[6].steps, 7);
}

INSTANTIATE_TEST_SUITE_P(Form, NormContract, testing::ValuesIn(forms()), form_name);

}  // namespace
}  // namespace spillway::optimizer::kernels
