#include "training/loop/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "training/loop/resident_memory.h"
#include "unit/training/tiny_config.h"

namespace spillway::training {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Admission, ARunThatFitsIsLetIn) {
  EXPECT_EQ(admit(tiny_config(), config::World{}, 1_GiB).text, "");
}

TEST(Admission, ALayoutForSixteenRanksIsRefusedOnOneWithAllFourFigures) {
  auto config = tiny_config();
  config.model.tensor_model_parallel_size = 2;
  config.model.pipeline_model_parallel_size = 2;
  config.model.expert_model_parallel_size = 4;
  config.model.num_moe_experts = 8;
  config.model.expert_tensor_parallel_size = std::nullopt;
  config::complete(config);
  const auto admission = admit(config, config::World{}, 1_MiB);
  EXPECT_EQ(admission.ranks_wanted, 16);
  EXPECT_EQ(admission.ranks_present, 1);
  EXPECT_EQ(admission.device_bytes_wanted, resident_device_memory(config));
  EXPECT_EQ(admission.device_bytes_present, 1_MiB);
  EXPECT_THAT(admission.text,
              AllOf(HasSubstr("16 wanted"), HasSubstr("1 present (started without a launcher)"),
                    HasSubstr(to_string(admission.device_bytes_wanted) + " wanted"),
                    HasSubstr(to_string(1_MiB) + " present"),
                    HasSubstr("model.tensor_model_parallel_size=1")));
}

TEST(Admission, SeveralRanksAreRefusedWhereOneIsNeeded) {
  config::World world;
  world.size = 4;
  world.launcher = "torchrun";
  EXPECT_THAT(admit(tiny_config(), world, 1_GiB).text,
              AllOf(HasSubstr("1 wanted"), HasSubstr("4 present (started by torchrun)")));
}

TEST(Admission, WhenOffloadingWouldDoItsOverridesAreNamed) {
  const auto config = tiny_config();
  const Bytes limit = Bytes(8 * kTinyParameters);
  EXPECT_THAT(admit(config, config::World{}, limit).text,
              AllOf(HasSubstr("optimizer.optimizer_cpu_offload=True"),
                    HasSubstr("it needs " + to_string(Bytes(4 * kTinyParameters)))));
}

TEST(Admission, WhenNothingWouldDoFewerLayersAreNamedThatLeaveRoom) {
  const auto config = tiny_config();
  const Bytes limit = Bytes(3 * kTinyParameters);
  const auto text = admit(config, config::World{}, limit).text;
  EXPECT_THAT(text, HasSubstr("model.num_layers=1 "));
  auto fewer = config;
  fewer.model.num_layers = 1;
  fewer.optimizer.optimizer_cpu_offload = true;
  fewer.optimizer.optimizer_offload_fraction = 1.0;
  EXPECT_LE(2 * resident_device_memory(fewer), limit);
}

}  // namespace
}  // namespace spillway::training
