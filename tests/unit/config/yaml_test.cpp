#include "spillway/config/yaml.h"

#include <gtest/gtest.h>

#include "config/layer.h"
#include "config/yaml_reader.h"
#include "spillway/core/error.h"
#include "unit/config/fixtures.h"

namespace spillway::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// What read_yaml() throws, or "" if it reads the text.
std::string refusal(const std::string& text) {
  try {
    (void)read_yaml(text, "file.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> errors_in(const std::string& text) {
  ConfigContainer config;
  std::vector<Finding> findings;
  Layer layer(config, findings);
  layer.apply_document(read_yaml(text, "file.yaml"), "file.yaml");
  std::vector<std::string> lines;
  for (const auto& finding : findings) lines.push_back(to_string(finding));
  return lines;
}

TEST(Yaml, ReadsBackWhatItWrites) {
  const auto first = resolve_tiny(
      {"dataset.path='a: \"b\" # c\t\\\\'", "optimizer.lr=0.1234567890123",
       "device.memory_limit=12345", "device.link_bandwidth=1.5e9",
       "model.recompute_granularity=selective", "model.recompute_modules=[mlp, core_attn]"});
  ASSERT_THAT(errors_of(first), IsEmpty());
  const auto text = to_yaml(first.config);
  ConfigContainer again;
  std::vector<Finding> findings;
  Layer layer(again, findings);
  layer.apply_document(read_yaml(text, "text"), "text");
  EXPECT_THAT(findings, IsEmpty());
  EXPECT_EQ(to_yaml(again), text);
  EXPECT_EQ(again.dataset.path, "a: \"b\" # c\t\\");
  EXPECT_DOUBLE_EQ(*again.optimizer.lr, 0.1234567890123);
}

TEST(Yaml, ReadsPythonsNoneAndQuotedStrings) {
  EXPECT_THAT(errors_in("dataset:\n  path: None\nmodel:\n  bf16: True\n"), IsEmpty());
  EXPECT_THAT(errors_in("model:\n  bf16: 'True'\n"), ElementsAre(HasSubstr("true or false")));
}

TEST(Yaml, SkipsAnEmptySection) { EXPECT_THAT(errors_in("model:\ntrain:\n"), IsEmpty()); }

TEST(Yaml, ReadsBridgesPlaceOfEvaluation) {
  EXPECT_THAT(errors_in("validation:\n  eval_iters: 3\n"), IsEmpty());
  EXPECT_THAT(errors_in("validation:\n  evil_iters: 3\n"),
              ElementsAre(HasSubstr("train.eval_iters")));
}

TEST(Yaml, NamesFileAndLineOfEveryMistake) {
  EXPECT_THAT(errors_in("model:\n  num_layers: many\n  num_layer: 3\nmodle:\n  bf16: true\n"),
              ElementsAre(AllOf(HasSubstr("model.num_layers"), HasSubstr("file.yaml, line 2")),
                          AllOf(HasSubstr("did you mean model.num_layers?"), HasSubstr("line 3")),
                          AllOf(HasSubstr("no such section"), HasSubstr("did you mean model?"))));
  EXPECT_THAT(errors_in("model: 3\n"), ElementsAre(HasSubstr("not a mapping")));
  EXPECT_THAT(errors_in("model:\n  num_layers: {a: 1}\n"), ElementsAre(HasSubstr("a mapping")));
}

TEST(Yaml, NeverExecutesATag) {
  EXPECT_THAT(refusal("model: !!python/object/apply:os.system ['true']\n"),
              AllOf(HasSubstr("tag"), HasSubstr("nothing is executed"), HasSubstr("line 1")));
  EXPECT_THAT(refusal("model:\n  num_layers: !!python/name:os.system x\n"), HasSubstr("line 2"));
  EXPECT_THAT(refusal("!!map {model: 3}\n"), HasSubstr("tag"));
  EXPECT_THAT(refusal("model:\n  !custom num_layers: 3\n"), HasSubstr("tag"));
}

TEST(Yaml, RefusesAnchorsAndAliasesSoThatNothingGrows) {
  EXPECT_THAT(refusal("a: &x [1, 2]\nb: *x\n"), HasSubstr("anchors"));
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'j'; ++c) {
    const std::string before(1, static_cast<char>(c - 1));
    bomb += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 9; ++i) bomb += (i > 0 ? ",*" : "*") + before;
    bomb += "]\n";
  }
  EXPECT_THAT(refusal(bomb), HasSubstr("anchors"));
}

TEST(Yaml, RefusesDeepNestingAndLargeFiles) {
  EXPECT_THAT(refusal("a: " + std::string(20, '[') + std::string(20, ']')), HasSubstr("nested"));
  EXPECT_NE(refusal("a: " + std::string(500'000, '[')), "");
  EXPECT_NE(refusal(std::string(500'000, '{')), "");
  std::string steps;
  for (int i = 0; i < 500; ++i) steps += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_THAT(refusal(steps), HasSubstr("nested"));
  EXPECT_THAT(refusal("a: " + std::string(1 << 20, 'x')), HasSubstr("too many"));
}

TEST(Yaml, RefusesANameGivenTwice) {
  EXPECT_THAT(refusal("model:\n  bf16: true\n  bf16: false\n"),
              AllOf(HasSubstr("'bf16' is given twice"), HasSubstr("line 3")));
}

TEST(Yaml, RefusesWhatIsNoMappingOfSections) {
  EXPECT_THAT(refusal(""), HasSubstr("nothing in it"));
  EXPECT_THAT(refusal("- a\n"), HasSubstr("not a mapping"));
  EXPECT_THAT(refusal("model: {}\n---\nmodel: {}\n"), HasSubstr("several documents"));
  EXPECT_THAT(refusal("model: [1\n"), HasSubstr("not YAML"));
  EXPECT_THAT(refusal("? [a, b]\n: c\n"), HasSubstr("a name must be a word"));
  EXPECT_NE(refusal(std::string("model:\0\x01\xff", 9)), "");
}

TEST(Yaml, SaysThatAFileIsNotThere) {
  EXPECT_THROW((void)read_config_file("/nowhere/at/all.yaml"), ConfigError);
  EXPECT_THROW((void)read_config_file("/"), ConfigError);
}

}  // namespace
}  // namespace spillway::config
