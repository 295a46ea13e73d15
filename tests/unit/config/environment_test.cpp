#include "spillway/config/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "spillway/core/error.h"

namespace spillway::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Environment of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

std::string refusal(std::map<std::string, std::string> variables) {
  try {
    (void)read_world(of(std::move(variables)));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(World, IsOneProcessWithoutALauncher) {
  const auto world = read_world(of({}));
  EXPECT_EQ(world.size, 1);
  EXPECT_EQ(world.rank, 0);
  EXPECT_EQ(world.launcher, "none");
}

TEST(World, ReadsTorchrun) {
  const auto world = read_world(of({{"WORLD_SIZE", "16"},
                                    {"RANK", "9"},
                                    {"LOCAL_WORLD_SIZE", "8"},
                                    {"LOCAL_RANK", "1"},
                                    {"MASTER_ADDR", "node7"},
                                    {"MASTER_PORT", "1234"}}));
  EXPECT_EQ(world.size, 16);
  EXPECT_EQ(world.rank, 9);
  EXPECT_EQ(world.local_size, 8);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.master_address, "node7");
  EXPECT_EQ(world.master_port, 1234);
  EXPECT_EQ(world.launcher, "torchrun");
}

TEST(World, ReadsOpenMpiAndOtherMpis) {
  const auto open = read_world(of({{"OMPI_COMM_WORLD_SIZE", "4"},
                                   {"OMPI_COMM_WORLD_RANK", "3"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}));
  EXPECT_EQ(open.rank, 3);
  EXPECT_EQ(open.local_rank, 1);
  EXPECT_EQ(open.launcher, "mpirun");
  const auto other = read_world(of({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}));
  EXPECT_EQ(other.size, 2);
  EXPECT_EQ(other.local_rank, 1);
}

TEST(World, ReadsSrunButNotTheShellOfASlurmJob) {
  const auto step = read_world(of({{"SLURM_STEP_NUM_TASKS", "16"},
                                   {"SLURM_PROCID", "10"},
                                   {"SLURM_STEP_TASKS_PER_NODE", "8(x2)"},
                                   {"SLURM_LOCALID", "2"}}));
  EXPECT_EQ(step.size, 16);
  EXPECT_EQ(step.rank, 10);
  EXPECT_EQ(step.local_size, 8);
  EXPECT_EQ(step.local_rank, 2);
  EXPECT_EQ(step.launcher, "slurm");
  EXPECT_EQ(read_world(of({{"SLURM_NTASKS", "16"}, {"SLURM_PROCID", "0"}})).size, 1);
}

TEST(World, RefusesWhatIsNotExactlyANumberInRange) {
  EXPECT_THAT(refusal({{"WORLD_SIZE", "2x"}, {"RANK", "0"}}), HasSubstr("WORLD_SIZE='2x'"));
  EXPECT_THAT(refusal({{"WORLD_SIZE", ""}, {"RANK", "0"}}), HasSubstr("WORLD_SIZE=''"));
  EXPECT_THAT(refusal({{"WORLD_SIZE", "0"}, {"RANK", "0"}}), HasSubstr("WORLD_SIZE"));
  EXPECT_THAT(refusal({{"WORLD_SIZE", "2"}, {"RANK", "2"}}), HasSubstr("[0, 1]"));
  EXPECT_THAT(refusal({{"WORLD_SIZE", "2"}, {"RANK", "-1"}}), HasSubstr("RANK"));
  EXPECT_THAT(refusal({{"WORLD_SIZE", "99999999999"}, {"RANK", "0"}}), HasSubstr("WORLD_SIZE"));
  EXPECT_THAT(refusal({{"WORLD_SIZE", "2"}, {"RANK", "0"}, {"MASTER_PORT", "70000"}}),
              HasSubstr("MASTER_PORT"));
  EXPECT_THAT(refusal({{"WORLD_SIZE", "2"}, {"RANK", "1"}, {"LOCAL_WORLD_SIZE", "3"}}),
              HasSubstr("LOCAL_WORLD_SIZE"));
}

TEST(World, RefusesHalfALauncher) {
  EXPECT_THAT(refusal({{"WORLD_SIZE", "2"}}), HasSubstr("RANK is not"));
  EXPECT_THAT(refusal({{"RANK", "0"}}), HasSubstr("WORLD_SIZE is not"));
}

TEST(RecipeFolders, AreThoseOfTheVariableIfItIsSet) {
  EXPECT_THAT(recipe_folders(of({{"SPILLWAY_RECIPES", "/a::/b"}}), "/x/spillway"),
              ElementsAre("/a", "/b"));
}

TEST(RecipeFolders, AreFoundAroundABuildFolder) {
  const std::filesystem::path root(SPILLWAY_SOURCE_DIR);
  EXPECT_THAT(recipe_folders(of({}), root / "build/release/spillway"),
              ElementsAre(root / "recipes"));
  EXPECT_THAT(recipe_folders(of({}), root / "build/cpu/bin/x_test"), ElementsAre(root / "recipes"));
  EXPECT_THAT(recipe_folders(of({}), "/spillway"), IsEmpty());
}

}  // namespace
}  // namespace spillway::config
