#include "spillway/optimizer/host_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "spillway/core/error.h"

namespace spillway::optimizer {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CpuBudget budget(int cores, int ranks) {
  return {.cores = cores, .launcher_cores = cores, .quota_cores = {}, .local_ranks = ranks};
}

Environment variables(std::map<std::string, std::string, std::less<>> values) {
  return [values = std::move(values)](std::string_view name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

/// A folder of its own for a test, removed afterwards.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("spillway_threads_" + unique())) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  static std::string unique() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    return std::to_string(getpid()) + "_" + test->name();
  }
  fs::path path_;
};

TEST(HostThreads, cores_are_shared_by_the_ranks_of_a_host) {
  EXPECT_EQ(choose_host_threads(budget(8, 1), 0).count, 8);
  EXPECT_EQ(choose_host_threads(budget(8, 2), 0).count, 4);
  EXPECT_EQ(choose_host_threads(budget(2, 8), 0).count, 1);
}

TEST(HostThreads, openmp_settings_do_not_matter) {
  ASSERT_EQ(setenv("OMP_NUM_THREADS", "1", 1), 0);
  const CpuBudget with = read_cpu_budget();
  ASSERT_EQ(unsetenv("OMP_NUM_THREADS"), 0);
  const CpuBudget without = read_cpu_budget();
  EXPECT_EQ(choose_host_threads(with, 0).count, choose_host_threads(without, 0).count);
  EXPECT_EQ(local_ranks(variables({{"OMP_NUM_THREADS", "1"}, {"LOCAL_WORLD_SIZE", "2"}})), 2);
}

TEST(HostThreads, of_many_cores_one_is_left_to_the_framework) {
  EXPECT_EQ(choose_host_threads(budget(16, 1), 0).count, 15);
  EXPECT_EQ(choose_host_threads(budget(128, 8), 0).count, 15);
  EXPECT_THAT(choose_host_threads(budget(16, 1), 0).reason, HasSubstr("framework"));
}

TEST(HostThreads, a_rank_that_the_launcher_bound_keeps_all_its_cores) {
  const CpuBudget bound = {.cores = 4, .launcher_cores = 16, .quota_cores = {}, .local_ranks = 4};
  EXPECT_EQ(choose_host_threads(bound, 0).count, 4);
}

TEST(HostThreads, a_quota_below_the_cores_is_what_there_is) {
  CpuBudget limited = budget(64, 2);
  limited.quota_cores = 12.5;
  EXPECT_EQ(choose_host_threads(limited, 0).count, 6);
  limited.quota_cores = 0.5;
  EXPECT_EQ(choose_host_threads(limited, 0).count, 1);
}

TEST(HostThreads, what_the_user_asks_for_wins) {
  EXPECT_EQ(choose_host_threads(budget(8, 2), 13).count, 13);
  EXPECT_THROW(static_cast<void>(choose_host_threads(budget(8, 2), -1)), ConfigError);
}

TEST(HostThreads, every_launcher_is_understood) {
  EXPECT_EQ(local_ranks(variables({})), 1);
  EXPECT_EQ(local_ranks(variables({{"LOCAL_WORLD_SIZE", "8"}})), 8);
  EXPECT_EQ(local_ranks(variables({{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}})), 4);
  EXPECT_EQ(local_ranks(variables({{"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"}})), 4);
}

TEST(HostThreads, a_rank_count_that_is_no_number_is_refused_by_name) {
  try {
    static_cast<void>(local_ranks(variables({{"LOCAL_WORLD_SIZE", "two"}})));
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("LOCAL_WORLD_SIZE=two"));
  }
}

TEST(HostThreads, the_tightest_quota_of_nested_control_groups_counts) {
  const Folder root;
  root.write("cpu.max", "max 100000\n");
  root.write("job/cpu.max", "400000 100000\n");
  root.write("job/step/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_quota(root.path(), "0::/job/step\n"), 4.0);
  EXPECT_EQ(cgroup_quota(root.path(), "0::/\n"), std::nullopt);
}

TEST(HostThreads, control_groups_of_version_1_are_read) {
  const Folder root;
  root.write("cpu/job/cpu.cfs_quota_us", "250000\n");
  root.write("cpu/job/cpu.cfs_period_us", "100000\n");
  root.write("cpu/cpu.cfs_quota_us", "-1\n");
  root.write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_quota(root.path(), "5:memory:/job\n4:cpu,cpuacct:/job\n"), 2.5);
}

TEST(HostThreads, a_container_whose_group_is_not_visible_uses_the_limit_of_its_root) {
  const Folder root;
  root.write("cpu.max", "200000 100000\n");
  EXPECT_EQ(cgroup_quota(root.path(), "0::/kubepods/pod1/box\n"), 2.0);
}

TEST(HostThreads, cpu_lists_are_read_as_the_kernel_writes_them) {
  EXPECT_THAT(parse_cpu_list("0-3,8"), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(parse_cpu_list(""), IsEmpty());
  EXPECT_THROW(static_cast<void>(parse_cpu_list("3-1")), ConfigError);
  EXPECT_THROW(static_cast<void>(parse_cpu_list("0,x")), ConfigError);
}

TEST(HostThreads, only_near_cpus_that_this_process_may_use_are_named) {
  const Folder root;
  root.write("bus/pci/devices/0000:1b:00.0/local_cpulist", "0-1023\n");
  const auto near = cpus_near_pci_device(root.path(), "0000:1b:00.0");
  EXPECT_EQ(static_cast<int>(near.size()), read_cpu_budget().cores);
  EXPECT_THAT(cpus_near_pci_device(root.path(), "0000:00:00.0"), IsEmpty());
}

}  // namespace
}  // namespace spillway::optimizer
