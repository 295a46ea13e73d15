#include "training/models/functions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "spillway/torch/compat.h"
#include "training/models/experts.h"

namespace spillway::training {
namespace {

using Tensors = std::vector<at::Tensor>;
using TensorOf = std::function<at::Tensor(const Tensors&)>;

/// Where, and in which type: kernels differ by both.
struct Place {
  std::string device;
  at::ScalarType type;
};

std::vector<Place> places() {
  std::vector<Place> result{{"cpu", at::kFloat}, {"cpu", at::kBFloat16}};
  if (at::hasCUDA()) {
    result.push_back({"cuda", at::kFloat});
    result.push_back({"cuda", at::kBFloat16});
  }
  return result;
}

class Functions : public testing::TestWithParam<Place> {
 protected:
  Functions() { at::manual_seed(11); }

  static at::Tensor random(at::IntArrayRef sizes) {
    return at::randn(sizes).to(c10::Device(GetParam().device), GetParam().type).requires_grad_();
  }

  static at::Tensor on_device(const at::Tensor& tensor) {
    return tensor.to(c10::Device(GetParam().device));
  }

  // Value and gradients of `function` at `inputs`, for a gradient that depends on every element.
  static Tensors value_and_gradients(const TensorOf& function, const Tensors& inputs) {
    const at::Tensor y = function(inputs);
    const at::Tensor weights =
        at::arange(y.numel(), y.options().dtype(at::kFloat)).cos().view(y.sizes());
    (y.to(at::kFloat) * weights).sum().backward();
    Tensors result{y.detach()};
    for (const at::Tensor& input : inputs)
      if (input.requires_grad()) result.push_back(input.grad());
    return result;
  }

  // Compares with `plain`, computed from the same values in double precision on the CPU.
  static void expect_agreement(const TensorOf& ours, const TensorOf& plain, const Tensors& inputs) {
    Tensors exact;
    for (const at::Tensor& input : inputs) {
      const bool floating = at::isFloatingType(input.scalar_type());
      const at::Tensor copy = input.detach().cpu().to(floating ? at::kDouble : input.scalar_type());
      exact.push_back(floating ? copy.requires_grad_(input.requires_grad()) : copy);
    }
    const Tensors expected = value_and_gradients(plain, exact);
    const Tensors got = value_and_gradients(ours, inputs);
    const double limit = GetParam().type == at::kFloat ? 1e-5 : 3e-2;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const at::Tensor difference = got[i].cpu().to(at::kDouble) - expected[i];
      EXPECT_LE(difference.abs().max().item<double>(),
                limit * expected[i].abs().max().item<double>())
          << (i == 0 ? "value" : "gradient ") << i;
    }
  }
};

std::string place_name(const testing::TestParamInfo<Place>& info) {
  return info.param.device + (info.param.type == at::kFloat ? "Fp32" : "Bf16");
}

INSTANTIATE_TEST_SUITE_P(Places, Functions, testing::ValuesIn(places()), place_name);

TEST_P(Functions, RmsNormAgreesWithItsFormula) {
  const auto plain = [](const Tensors& in) {
    return in[0] / (in[0].square().mean(-1, true) + 1e-6).sqrt() * in[1];
  };
  const auto ours = [](const Tensors& in) { return rms_norm(in[0], in[1], 1e-6); };
  expect_agreement(ours, plain, {random({3, 7, 33}), random({33})});
}

TEST_P(Functions, SwigluAgreesWithItsFormula) {
  expect_agreement([](const Tensors& in) { return swiglu(in[0], in[1]); },
                   [](const Tensors& in) { return at::silu(in[0]) * in[1]; },
                   {random({5, 19}), random({5, 19})});
  const auto plain = [](const Tensors& in) {
    const Tensors halves = in[0].chunk(2, 1);
    return at::silu(halves[0]) * halves[1] * in[1].unsqueeze(1);
  };
  expect_agreement([](const Tensors& in) { return scaled_swiglu(in[0], in[1]); }, plain,
                   {random({5, 38}), random({5})});
}

at::Tensor plain_attention(const Tensors& in) {
  const std::int64_t repeats = in[0].size(1) / in[1].size(1);
  const std::int64_t seq = in[0].size(2);
  const at::Tensor k = in[1].repeat_interleave(repeats, 1);
  const at::Tensor v = in[2].repeat_interleave(repeats, 1);
  const at::Tensor scores =
      at::matmul(in[0], k.transpose(2, 3)) / std::sqrt(static_cast<double>(in[0].size(3)));
  const at::Tensor future = at::ones({seq, seq}, at::kBool).triu(1);
  const at::Tensor masked = scores.masked_fill(future, -std::numeric_limits<double>::infinity());
  return at::matmul(at::softmax(masked, -1), v);
}

TEST_P(Functions, AttentionAgreesWithItsFormulaForGroupedHeadsAndAnyLength) {
  for (const auto kernel : {AttentionKernel::kFused, AttentionKernel::kUnfused})
    for (const std::int64_t seq : {2, 16, 37}) {
      const auto ours = [kernel](const Tensors& in) {
        return causal_attention(in[0], in[1], in[2], kernel);
      };
      expect_agreement(ours, plain_attention,
                       {random({2, 6, seq, 16}), random({2, 2, seq, 16}), random({2, 2, seq, 16})});
    }
}

TEST_P(Functions, AttentionOfOneTokenIsItsValueBitForBit) {
  const at::Tensor v = random({2, 2, 1, 16}).detach();
  for (const auto kernel : {AttentionKernel::kFused, AttentionKernel::kUnfused}) {
    const at::Tensor y = causal_attention(random({2, 6, 1, 16}), random({2, 2, 1, 16}), v, kernel);
    EXPECT_TRUE(y.detach().equal(v.repeat_interleave(3, 1)));
  }
}

TEST_P(Functions, AttentionAgreesWithItsFormulaOverSeveralBlocksOfQueries) {
  const auto ours = [](const Tensors& in) {
    return causal_attention(in[0], in[1], in[2], AttentionKernel::kFused);
  };
  // 8 heads x 1100 queries x 1100 keys of fp32 scores are more than two blocks.
  expect_agreement(ours, plain_attention,
                   {random({1, 8, 1100, 8}), random({1, 2, 1100, 8}), random({1, 2, 1100, 8})});
}

TEST_P(Functions, GroupedLinearAgreesWithAProductPerGroupAlsoForEmptyOnes) {
  const at::Tensor ends = on_device(at::tensor({0, 5, 5, 6, 23, 23}, at::kLong));
  const auto ours = [&](const Tensors& in) { return grouped_linear(in[0], in[1], ends); };
  const auto plain = [](const Tensors& in) {
    return at::cat({at::mm(in[0].narrow(0, 0, 5), in[1][1].t()),
                    at::mm(in[0].narrow(0, 5, 1), in[1][3].t()),
                    at::mm(in[0].narrow(0, 6, 17), in[1][4].t())});
  };
  expect_agreement(ours, plain, {random({23, 16}), random({6, 24, 16})});
}

TEST_P(Functions, GatherRowsAddsUpGroupsAndGivesEachRowItsGroupsGradient) {
  const at::Tensor order = at::tensor({3, 0, 5, 1, 4, 2}, at::kLong);
  const at::Tensor groups = on_device(at::floor_divide(at::argsort(order), 2));
  const at::Tensor device_order = on_device(order);
  const auto ours = [&](const Tensors& in) {
    return gather_rows(in[0], device_order, 2, groups, 1);
  };
  const auto plain = [&](const Tensors& in) {
    return in[0].index_select(0, order).view({3, 2, 4}).sum(1);
  };
  expect_agreement(ours, plain, {random({6, 4})});
}

TEST_P(Functions, CrossEntropyAgreesWithItsFormulaOverSeveralPiecesOfRows) {
  constexpr std::int64_t kVocab = 300000;  // 55 rows at a time
  at::Tensor labels = at::arange(60, at::kLong) * 4999;
  labels[7].fill_(-100);
  const at::Tensor device_labels = on_device(labels);
  const auto ours = [&](const Tensors& in) {
    return linear_cross_entropy(in[0], in[1], device_labels);
  };
  const auto plain = [&](const Tensors& in) {
    const at::Tensor logs = at::log_softmax(at::mm(in[0], in[1].t()), 1);
    const at::Tensor chosen = logs.gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1);
    return -(chosen * labels.ge(0)).sum() / 59.0;
  };
  expect_agreement(ours, plain, {random({60, 8}), random({kVocab, 8})});
}

TEST(Recompute, RunsAgainInBackwardAndGivesParametersTheirGradients) {
  const at::Tensor weight = at::ones({3}).requires_grad_();
  const at::Tensor x = at::ones({3});  // needs no gradient; the weight inside does
  int runs = 0;
  const auto fn = [&](const Tensors& in) {
    ++runs;
    return Tensors{in[0] * weight, in[0] + weight};
  };
  const Tensors out = recompute(fn, {x});
  EXPECT_EQ(runs, 1);
  (out[0].sum() * 2.0).backward();
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(weight.grad().equal(at::full({3}, 2.0)));
}

TEST(Recompute, RunsOnceWithoutGradients) {
  const at::NoGradGuard no_grad;
  int runs = 0;
  (void)recompute(
      [&](const Tensors& in) {
        ++runs;
        return in;
      },
      {at::ones({1})});
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace spillway::training
