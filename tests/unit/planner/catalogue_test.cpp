#include "planner/diagnose/catalogue.h"

#include <gmock/gmock.h>

#include <set>

#include "unit/planner/diagnose_fixture.h"

namespace spillway::planner {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::SizeIs;

TEST(Catalogue, RecognisesEveryExampleOfItsOwnRows) {
  int num_examples = 0;
  for (const auto& row : catalogue()) {
    for (const auto& example : row.examples) {
      ++num_examples;
      const auto found = test::ids(test::diagnose_text(example + "\n"));
      EXPECT_THAT(found, Contains(row.id)) << example;
    }
  }
  EXPECT_GT(num_examples, 50);
}

TEST(Catalogue, TakesEachExampleForOneCauseOnly) {
  // A line may be named by a row that another row explains better; that one must stand first.
  for (const auto& row : catalogue()) {
    for (const auto& example : row.examples) {
      const auto found = test::ids(test::diagnose_text(example + "\n"));
      ASSERT_FALSE(found.empty()) << example;
      EXPECT_EQ(found.front(), row.id) << example;
    }
  }
}

TEST(Catalogue, HasUniqueNamesAndRefersToRowsThatExist) {
  std::set<std::string> names;
  for (const auto& row : catalogue()) EXPECT_TRUE(names.insert(row.id).second) << row.id;
  for (const auto& row : catalogue()) {
    for (const auto& id : row.after) EXPECT_TRUE(names.contains(id)) << row.id << " after " << id;
    for (const auto& id : row.replaces) EXPECT_TRUE(names.contains(id)) << row.id << ": " << id;
  }
}

TEST(Catalogue, SaysCauseConfirmationAndFixInEveryRow) {
  for (const auto& row : catalogue()) {
    EXPECT_FALSE(row.title.empty()) << row.id;
    EXPECT_GT(row.cause.size(), 30U) << row.id;
    EXPECT_FALSE(row.confirm.empty()) << row.id;
    EXPECT_GT(row.fix.size(), 15U) << row.id;
    EXPECT_TRUE(!row.any.empty() || !row.when.empty()) << row.id << " can never be found";
  }
}

TEST(Catalogue, RecognisesForeignMessagesOfEveryRuleThatMegatronEnforces) {
  const std::vector<std::pair<std::string, std::string>> messages = {
      {"Currently there is no support for Pipeline parallelism with CPU offloading",
       "activation-offload-needs-pp1"},
      {"CPU offloading does not work when activation recomputation is enabled",
       "activation-offload-with-recompute"},
      {"fine_grained_activation_offloading cannot be enabled with cpu_offloading",
       "fine-grained-with-layer-offload"},
      {"CUDA graphs not supported with CPU offloading", "activation-offload-with-cuda-graphs"},
      {"CPU offloading only supported with decoupled_weight_decay",
       "optimizer-offload-needs-decoupled-decay"},
  };
  for (const auto& [message, id] : messages) {
    const auto traceback =
        "[rank0]: Traceback (most recent call last):\n[rank0]: ValueError: " + message + ".\n";
    EXPECT_THAT(test::ids(test::diagnose_text(traceback)), testing::ElementsAre(id)) << message;
  }
}

}  // namespace
}  // namespace spillway::planner
