#include "planner/diagnose/phrase.h"

#include <gtest/gtest.h>

#include "planner/diagnose/literal_set.h"

namespace spillway::planner {
namespace {

bool matches(const char* pattern, const char* line) {
  return Phrase(pattern).find_in(normalised(line)) != std::string_view::npos;
}

TEST(Phrase, IgnoresCaseBlanksAndKindsOfQuotes) {
  EXPECT_TRUE(matches("cuda out of memory", "CUDA   out\tof memory."));
  EXPECT_TRUE(matches("no attribute 'x'", "no attribute \"x\""));
  EXPECT_TRUE(matches("with '--flag'", "with `--flag`"));
  EXPECT_TRUE(matches("no attribute 'x'", R"({"log": "no attribute \"x\""})"));
}

TEST(Phrase, MatchesWholeWordsAlone) {
  EXPECT_FALSE(matches("oom kill", "room kill"));
  EXPECT_FALSE(matches("out_of_memory", "CUDA_ERROR_OUT_OF_MEMORY"));
  EXPECT_FALSE(matches("exit code 137", "exit code 1370"));
  EXPECT_TRUE(matches("oom kill", "an oom kill, then room kill"));
  EXPECT_TRUE(matches("oom kill", "room kill, then oom kill"));
}

TEST(Phrase, NeedsItsPiecesInOrder) {
  EXPECT_TRUE(matches("world size ... is not divisible", "World size (8) is not divisible by 16"));
  EXPECT_FALSE(matches("world size ... is not divisible", "is not divisible: world size"));
}

TEST(LiteralSet, FindsOverlappingAndNestedLiteralsOnceALine) {
  LiteralSet set({"she", "he", "hers", "his"});
  std::vector<int> found;
  set.find_in("ushers she", found);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<int>{0, 1, 2}));
  found.clear();
  set.find_in("his", found);
  EXPECT_EQ(found, std::vector<int>{3});
  found.clear();
  set.find_in("", found);
  EXPECT_TRUE(found.empty());
}

}  // namespace
}  // namespace spillway::planner
