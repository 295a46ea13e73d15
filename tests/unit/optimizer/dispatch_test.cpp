// Choosing a form, and refusing what has no kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "optimizer/kernels/kernels.h"
#include "spillway/core/error.h"

namespace spillway::optimizer::kernels {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string message_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Dispatch, auto_is_the_best_form_that_can_run_here) {
  EXPECT_EQ(&host_kernels("auto"), available_host_kernels().back());
  EXPECT_EQ(&host_kernels(), &host_kernels("auto"));
  EXPECT_EQ(available_host_kernels().front()->isa, Isa::kScalar);
}

TEST(Dispatch, each_available_form_can_be_forced_and_says_so) {
  for (const HostKernels* kernels : available_host_kernels()) {
    EXPECT_EQ(host_kernels(name_of(kernels->isa)).isa, kernels->isa);
  }
}

TEST(Dispatch, a_form_that_this_cpu_lacks_is_refused_with_a_list_of_those_it_has) {
  const std::array<const HostKernels*, 2> old_cpu = {&kScalarKernels, &kAvx2Kernels};
  EXPECT_EQ(select_host_kernels("auto", old_cpu).isa, Isa::kAvx2);
  EXPECT_THAT(message_of([&] { static_cast<void>(select_host_kernels("avx512", old_cpu)); }),
              AllOf(HasSubstr("avx512"), HasSubstr("auto, scalar, avx2")));
  EXPECT_THAT(message_of([] { static_cast<void>(host_kernels("neon")); }), HasSubstr("neon"));
}

TEST(Dispatch, formats_without_a_kernel_are_refused_by_name) {
  EXPECT_THAT(message_of([] { check_format({.parameter = DType::kFloat64}); }), HasSubstr("fp64"));
  EXPECT_THAT(message_of([] { check_format({.gradient = DType::kInt32}); }), HasSubstr("int32"));
  EXPECT_THAT(message_of([] { check_format({.gradient = DType::kFloat16}); }), HasSubstr("fp16"));
  EXPECT_THAT(message_of([] { check_format({.master = MasterKind::kParameter}); }),
              HasSubstr("master"));
  EXPECT_THAT(message_of([] {
                check_format({.parameter = DType::kFloat32, .master = MasterKind::kRemainder});
              }),
              HasSubstr("master"));
  check_format({});
}

TEST(Dispatch, steps_need_one_entry_per_slot) {
  std::array<SlotSettings, 2> groups;
  std::array<SlotState, 1> states;
  std::array<StepScalars, 2> scalars;
  EXPECT_THROW(prepare_steps({}, {}, groups, states, scalars), UsageError);
}

}  // namespace
}  // namespace spillway::optimizer::kernels
