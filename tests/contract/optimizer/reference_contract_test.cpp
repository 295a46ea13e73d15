// The update rules against numbers worked out in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "contract/optimizer/test_data.h"

namespace spillway::optimizer::kernels {
namespace {

struct Settings {
  double lr = 0.1;
  double weight_decay = 0.0;
  bool decoupled = true;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double clip_grad = 0.0;
  Algorithm algorithm = Algorithm::kAdam;
  double momentum = 0.0;
};

/// fp32 parameters that are their own masters, updated from gradients to numbers.
class Trainer {
 public:
  Trainer(KernelForm& form, const Settings& settings, std::vector<float> start) : form_(form) {
    format_ = {.algorithm = settings.algorithm,
               .parameter = DType::kFloat32,
               .gradient = DType::kFloat32,
               .master = MasterKind::kParameter};
    const auto size = static_cast<std::int64_t>(start.size());
    items_.resize(1);
    items_[0].num_elements = size;
    for (GuardedArray* array :
         {&items_[0].parameter, &items_[0].gradient, &items_[0].exp_avg, &items_[0].exp_avg_sq}) {
      *array = GuardedArray(size, 4, 0);
    }
    std::ranges::copy(start, parameter().begin());
    step_.groups = {{.lr = settings.lr,
                     .weight_decay = settings.weight_decay,
                     .beta1 = settings.beta1,
                     .beta2 = settings.beta2,
                     .momentum = settings.momentum,
                     .decoupled_weight_decay = settings.decoupled ? 1 : 0}};
    step_.states.resize(1);
    step_.settings.clip_grad = settings.clip_grad;
  }

  void step(const std::vector<float>& gradient) {
    std::ranges::copy(gradient, items_[0].gradient.as<float>().begin());
    NormArray norm{items_[0].gradient, DType::kFloat32, items_[0].num_elements};
    step_.sum_of_squares = form_.sum_of_squares(std::span(&norm, 1));
    form_.prepare_steps(step_);
    form_.update(format_, items_, step_.scalars);
  }

  /// Steps with one gradient each; the parameter after every step.
  std::vector<double> run(const std::vector<float>& gradients) {
    std::vector<double> path;
    for (const float g : gradients) {
      step({g});
      path.push_back(parameter()[0]);
    }
    return path;
  }

  [[nodiscard]] std::span<float> parameter() { return items_[0].parameter.as<float>(); }
  [[nodiscard]] std::span<float> exp_avg() { return items_[0].exp_avg.as<float>(); }
  [[nodiscard]] std::span<float> exp_avg_sq() { return items_[0].exp_avg_sq.as<float>(); }
  [[nodiscard]] StepArrays& state() { return step_; }
  void set_learning_rate(double lr) { step_.groups[0].lr = lr; }

 private:
  KernelForm& form_;
  UpdateFormat format_;
  std::vector<ItemArrays> items_;
  StepArrays step_;
};

class Reference : public KernelContract {
 protected:
  double one_step(const Settings& settings, float gradient) {
    return Trainer(*form, settings, {1.0F}).run({gradient}).back();
  }
};

void expect_path(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-6) << i;
}

TEST_P(Reference, varying_gradients_follow_adam) {
  Trainer trainer(*form, {}, {1.0F});
  expect_path(trainer.run({1.0F, 0.1F, -0.5F, 0.25F}), {0.900000, 0.825919, 0.803137, 0.772274});
}

TEST_P(Reference, moments_after_two_steps_are_those_of_adam) {
  Trainer trainer(*form, {}, {1.0F});
  trainer.run({1.0F, 0.1F});
  EXPECT_NEAR(trainer.exp_avg()[0], 0.1, 1e-8);
  EXPECT_NEAR(trainer.exp_avg_sq()[0], 0.001009, 1e-9);
}

TEST_P(Reference, a_constant_gradient_moves_the_learning_rate_each_step) {
  Trainer trainer(*form, {}, {1.0F});
  expect_path(trainer.run({0.5F, 0.5F, 0.5F}), {0.9, 0.8, 0.7});
}

TEST_P(Reference, a_learning_rate_that_changes_acts_in_the_same_step) {
  Trainer trainer(*form, {}, {1.0F});
  std::vector<double> path;
  for (const double lr : {0.1, 0.01, 0.001}) {
    trainer.set_learning_rate(lr);
    path.push_back(trainer.run({0.5F}).back());
  }
  expect_path(path, {0.900, 0.890, 0.889});
}

TEST_P(Reference, decoupled_decay_is_not_l2_decay) {
  EXPECT_NEAR(one_step({.weight_decay = 0.01}, 0.5F), 0.899000002, 1e-7);
  EXPECT_NEAR(one_step({.weight_decay = 0.1}, 0.5F), 0.890, 1e-6);
  EXPECT_NEAR(one_step({.weight_decay = 0.1, .decoupled = false}, 0.5F), 0.900, 1e-6);
}

TEST_P(Reference, eps_stands_outside_the_corrected_root) {
  EXPECT_NEAR(one_step({}, 1e-8F), 0.95, 1e-6);
}

TEST_P(Reference, ten_steps_and_a_smaller_gradient_give_the_eleventh) {
  Trainer trainer(*form, {.lr = 0.01}, {1.0F});
  trainer.run(std::vector<float>(10, 1.0F));
  EXPECT_NEAR(trainer.run({0.5F}).back(), 0.8903936943, 1e-6);
}

TEST_P(Reference, a_wrong_step_counter_would_show) {
  for (const auto& [steps, expected] :
       {std::pair{2, 0.803137}, {0, 0.790256}, {1, 0.799381}, {10, 0.808724}}) {
    Trainer trainer(*form, {}, {1.0F});
    trainer.run({1.0F, 0.1F});
    trainer.state().states[0] = {.steps = steps};
    EXPECT_NEAR(trainer.run({-0.5F}).back(), expected, 1e-5) << steps;
  }
}

TEST_P(Reference, gradients_are_clipped_to_the_global_norm) {
  Trainer trainer(*form, {.clip_grad = 1.0}, {1.0F, 1.0F});
  trainer.step({3.0F, 4.0F});
  EXPECT_DOUBLE_EQ(trainer.state().outcome.grad_norm, 5.0);
  EXPECT_NEAR(trainer.exp_avg()[0], 0.06, 1e-6);
  EXPECT_NEAR(trainer.exp_avg()[1], 0.08, 1e-6);
}

TEST_P(Reference, a_norm_below_the_limit_is_not_scaled) {
  Trainer trainer(*form, {.clip_grad = 6.0}, {1.0F, 1.0F});
  trainer.step({3.0F, 4.0F});
  EXPECT_EQ(trainer.state().scalars[0].grad_scale, 1.0F);
}

TEST_P(Reference, random_training_stays_with_a_double_adam) {
  constexpr std::size_t kSize = 257;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> start(kSize);
  for (float& x : start) x = normal(random);
  const Settings settings{.lr = 1e-2, .weight_decay = 0.1, .beta2 = 0.95};
  Trainer trainer(*form, settings, start);
  std::vector<double> p(start.begin(), start.end());
  std::vector<double> m(kSize);
  std::vector<double> v(kSize);
  for (int t = 1; t <= 50; ++t) {
    std::vector<float> gradient(kSize);
    for (float& g : gradient) g = normal(random);
    trainer.step(gradient);
    for (std::size_t i = 0; i < kSize; ++i) {
      const double g = gradient[i];
      m[i] = settings.beta1 * m[i] + (1 - settings.beta1) * g;
      v[i] = settings.beta2 * v[i] + (1 - settings.beta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(settings.beta1, t));
      const double v_hat = v[i] / (1 - std::pow(settings.beta2, t));
      p[i] = p[i] * (1 - settings.lr * settings.weight_decay) -
             settings.lr * m_hat / (std::sqrt(v_hat) + 1e-8);
    }
  }
  double moved = 0.0;
  for (std::size_t i = 0; i < kSize; ++i) {
    EXPECT_NEAR(trainer.parameter()[i], p[i], 5e-6);
    moved += std::abs(trainer.parameter()[i] - start[i]);
  }
  EXPECT_GT(moved / kSize, 0.02);
}

TEST_P(Reference, sgd_accumulates_momentum_from_the_first_gradient) {
  Trainer trainer(*form, {.algorithm = Algorithm::kSgd, .momentum = 0.9}, {1.0F});
  // buffer: 1, 1.9, 1.71 + 1 = 2.71
  expect_path(trainer.run({1.0F, 1.0F, 1.0F}), {0.9, 0.71, 0.439});
}

TEST_P(Reference, sgd_without_momentum_is_plain_descent_with_l2_decay) {
  const Settings settings{.weight_decay = 0.5, .decoupled = false, .algorithm = Algorithm::kSgd};
  Trainer trainer(*form, settings, {1.0F});
  expect_path(trainer.run({1.0F, 0.0F}), {0.85, 0.8075});
}

INSTANTIATE_TEST_SUITE_P(Form, Reference, testing::ValuesIn(forms()), form_name);

}  // namespace
}  // namespace spillway::optimizer::kernels
