// What every form of the update kernels must do.
#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <bit>
#include <cmath>

#include "contract/optimizer/test_data.h"
#include "spillway/core/bf16.h"

namespace spillway::optimizer::kernels {
namespace {

class UpdateContract : public KernelContract {
 protected:
  /// Updates copies of the same items with this form and with the scalar form.
  void compare_with_scalar(const UpdateFormat& format, Values values, std::uint64_t seed) {
    SCOPED_TRACE(describe(format));
    auto items = make_items(format, values, seed);
    auto expected = items;
    const auto scalars = third_step();
    form->update(format, items, scalars);
    make_host_form(kScalarKernels)->update(format, expected, scalars);
    expect_same(items, expected);
  }
};

TEST_P(UpdateContract, gives_the_bits_of_the_scalar_form_for_every_format_size_and_alignment) {
  std::uint64_t seed = 1;
  for (const UpdateFormat& format : all_formats()) {
    check_format(format);
    compare_with_scalar(format, Values::kOrdinary, ++seed);
  }
}

TEST_P(UpdateContract, gives_the_bits_of_the_scalar_form_for_every_kind_of_value) {
  std::uint64_t seed = 1000;
  for (const UpdateFormat& format : all_formats()) {
    compare_with_scalar(format, Values::kExtreme, ++seed);
  }
}

TEST_P(UpdateContract, changes_what_it_updates) {
  for (const UpdateFormat& format : all_formats()) {
    SCOPED_TRACE(describe(format));
    std::vector<ItemArrays> items;
    items.push_back(make_item(format, 1000, 0, Values::kOrdinary, 7));
    auto before = items;
    form->update(format, items, third_step());
    EXPECT_FALSE(items[0].exp_avg.same_bytes(before[0].exp_avg));
    EXPECT_TRUE(items[0].gradient.same_bytes(before[0].gradient));
    const bool has_master = format.master != MasterKind::kParameter;
    GuardedArray& master = has_master ? items[0].master : items[0].parameter;
    EXPECT_FALSE(master.same_bytes(has_master ? before[0].master : before[0].parameter));
  }
}

TEST_P(UpdateContract, a_skipped_step_changes_nothing) {
  for (const UpdateFormat& format : all_formats()) {
    auto items = make_items(format, Values::kExtreme, 3);
    auto before = items;
    auto scalars = third_step();
    for (StepScalars& s : scalars) s.skip = 1;
    form->update(format, items, scalars);
    expect_same(items, before);
  }
}

TEST_P(UpdateContract, remainder_and_fp32_master_give_the_same_bits) {
  for (const DType gradient : {DType::kFloat32, DType::kBFloat16}) {
    UpdateFormat wide{.gradient = gradient, .master = MasterKind::kFloat32};
    UpdateFormat split{.gradient = gradient, .master = MasterKind::kRemainder};
    std::vector<ItemArrays> wide_items;
    wide_items.push_back(make_item(wide, 1557, 0, Values::kOrdinary, 5));
    std::vector<ItemArrays> split_items;
    split_items.push_back(make_item(split, 1557, 0, Values::kOrdinary, 5));
    // Same gradient and moments; the split master is the wide one taken apart.
    split_items[0].gradient = wide_items[0].gradient;
    split_items[0].exp_avg = wide_items[0].exp_avg;
    split_items[0].exp_avg_sq = wide_items[0].exp_avg_sq;
    for (std::size_t i = 0; i < 1557; ++i) {
      const float master = wide_items[0].master.as<float>()[i];
      split_items[0].parameter.as<std::uint16_t>()[i] = parameter_of_master(master);
      split_items[0].master.as<std::uint16_t>()[i] = remainder_of_master(master);
    }
    for (int step = 0; step < 20; ++step) {
      form->update(wide, wide_items, third_step());
      form->update(split, split_items, third_step());
    }
    EXPECT_TRUE(wide_items[0].parameter.same_bytes(split_items[0].parameter));
    for (std::size_t i = 0; i < 1557; ++i) {
      const float joined = join_master(split_items[0].parameter.as<std::uint16_t>()[i],
                                       split_items[0].master.as<std::uint16_t>()[i]);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(joined),
                std::bit_cast<std::uint32_t>(wide_items[0].master.as<float>()[i]));
    }
  }
}

TEST_P(UpdateContract, equal_parameters_of_one_slot_stay_equal_however_they_are_cut) {
  const UpdateFormat format;
  std::vector<ItemArrays> items;
  for (int i = 0; i < 3; ++i) items.push_back(make_item(format, 300, 0, Values::kOrdinary, 11));
  items.push_back(make_item(format, 300, 3, Values::kOrdinary, 11));
  form->update(format, items, third_step());
  for (std::size_t i = 1; i < items.size(); ++i) {
    EXPECT_TRUE(items[i].parameter.same_bytes(items[0].parameter));
    EXPECT_TRUE(items[i].exp_avg_sq.same_bytes(items[0].exp_avg_sq));
  }
}

TEST_P(UpdateContract, moments_that_fade_become_zero_and_never_subnormal) {
  const UpdateFormat format{
      .parameter = DType::kFloat32, .gradient = DType::kFloat32, .master = MasterKind::kParameter};
  std::vector<ItemArrays> items;
  items.push_back(make_item(format, 64, 0, Values::kOrdinary, 1));
  std::ranges::fill(items[0].gradient.as<float>(), 0.0F);
  std::ranges::fill(items[0].exp_avg.as<float>(), 1e-3F);
  std::ranges::fill(items[0].exp_avg_sq.as<float>(), 1e-6F);
  const unsigned mode = _mm_getcsr() & ~0x3fU;  // all but the exception flags
  StepScalars scalars = third_step()[0];
  scalars.beta2 = 0.9F;
  for (int step = 0; step < 900; ++step) {
    form->update(format, items, std::vector{scalars});
    for (GuardedArray* array : {&items[0].exp_avg, &items[0].exp_avg_sq}) {
      ASSERT_NE(std::fpclassify(array->as<float>()[17]), FP_SUBNORMAL) << "step " << step;
    }
  }
  EXPECT_EQ(std::bit_cast<std::uint32_t>(items[0].exp_avg.as<float>()[17]), 0U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(items[0].exp_avg_sq.as<float>()[17]), 0U);
  EXPECT_EQ(_mm_getcsr() & ~0x3fU, mode);
}

TEST_P(UpdateContract, what_is_not_a_number_becomes_the_canonical_nan) {
  const UpdateFormat format;  // bf16 parameters and gradients, fp32 master
  std::vector<ItemArrays> items;
  items.push_back(make_item(format, 3, 0, Values::kOrdinary, 1));
  items[0].gradient.as<std::uint16_t>()[1] = 0xffc1U;
  form->update(format, items, third_step());
  EXPECT_EQ(std::bit_cast<std::uint32_t>(items[0].master.as<float>()[1]), 0x7fc00000U);
  EXPECT_EQ(items[0].parameter.as<std::uint16_t>()[1], 0x7fc0U);
  EXPECT_TRUE(std::isfinite(items[0].master.as<float>()[0]));
  EXPECT_TRUE(std::isfinite(items[0].master.as<float>()[2]));
}

TEST_P(UpdateContract, many_tiny_items_are_updated_like_one_large_one) {
  const UpdateFormat format{
      .parameter = DType::kFloat32, .gradient = DType::kFloat32, .master = MasterKind::kParameter};
  constexpr std::int64_t kItems = 2000;
  std::vector<ItemArrays> large;
  large.push_back(make_item(format, kItems, 0, Values::kOrdinary, 21));
  std::vector<ItemArrays> tiny;
  for (std::size_t i = 0; i < kItems; ++i) {
    ItemArrays& item = tiny.emplace_back();
    item.num_elements = 1;
    const auto one = [&](GuardedArray& array) {
      GuardedArray copy(1, 4, static_cast<std::int64_t>(i % 3));
      copy.as<float>()[0] = array.as<float>()[i];
      return copy;
    };
    item.parameter = one(large[0].parameter);
    item.gradient = one(large[0].gradient);
    item.exp_avg = one(large[0].exp_avg);
    item.exp_avg_sq = one(large[0].exp_avg_sq);
  }
  form->update(format, tiny, third_step());
  form->update(format, large, third_step());
  for (std::size_t i = 0; i < kItems; ++i) {
    ASSERT_EQ(tiny[i].parameter.as<float>()[0], large[0].parameter.as<float>()[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Form, UpdateContract, testing::ValuesIn(forms()), form_name);

}  // namespace
}  // namespace spillway::optimizer::kernels
