#include "config/yaml_reader.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <fstream>
#include <set>
#include <sstream>

#include "spillway/core/error.h"

namespace spillway::config {
namespace {

constexpr std::size_t kLargestFile = 1 << 20;
// Section, key, list: a configuration is three levels deep. The rest is for better messages.
constexpr std::size_t kDeepestNesting = 8;

/// Builds raw values from the parser's events. Events rather than nodes, because nodes follow
/// aliases, and a page of aliases to aliases is a tree without end.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(std::string origin) : origin_(std::move(origin)) {}

  RawValue take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    add(mark, {});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(mark, "aliases (*name) are not read; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    const bool quoted = tag == "!";
    if (!quoted && is_null_word(text)) return add(mark, {});
    add(mark, {.kind = RawValue::Kind::kScalar,
               .text = text,
               .quoted = quoted,
               .items = {},
               .names = {}});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, RawValue::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, RawValue::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    RawValue value;
    bool name_is_next = true;  ///< mappings only
    YAML::Mark mark;
    std::set<std::string> seen;  ///< names of a mapping
  };

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& why) const {
    throw ConfigError(fmt::format("{}, line {}: {}", origin_, mark.line + 1, why));
  }

  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != 0) fail(mark, "anchors (&name) are not read; write the value out");
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag.empty() || tag == "?" || tag == "!") return;
    fail(mark,
         fmt::format("the tag '{}' is refused: values are read as text and nothing is executed;"
                     " leave the tag out",
                     tag.substr(0, 80)));
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            RawValue::Kind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (levels_.size() >= kDeepestNesting) fail(mark, "nested too deeply for a configuration");
    levels_.push_back({{.kind = kind, .text = {}, .items = {}, .names = {}}, true, mark, {}});
  }

  void close() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    add(level.mark, std::move(level.value));
  }

  void add(const YAML::Mark& mark, RawValue value) {
    value.line = mark.line + 1;
    if (levels_.empty()) {
      root_ = std::move(value);
      return;
    }
    Level& level = levels_.back();
    if (level.value.kind == RawValue::Kind::kMap && level.name_is_next) {
      add_name(mark, level, value);
    } else {
      level.value.items.push_back(std::move(value));
      level.name_is_next = true;
    }
  }

  void add_name(const YAML::Mark& mark, Level& level, const RawValue& name) {
    if (name.kind != RawValue::Kind::kScalar) fail(mark, "a name must be a word");
    if (!level.seen.insert(name.text).second) {
      fail(mark, fmt::format("'{}' is given twice; keep one of them", name.text.substr(0, 80)));
    }
    level.value.names.push_back(name.text);
    level.name_is_next = false;
  }

  std::string origin_;
  std::vector<Level> levels_;
  RawValue root_;
};

}  // namespace

RawValue read_yaml(const std::string& text, const std::string& origin) {
  if (text.size() > kLargestFile) {
    throw ConfigError(fmt::format("{}: {} bytes are too many for a configuration (at most {})",
                                  origin, text.size(), kLargestFile));
  }
  Builder builder(origin);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      throw ConfigError(origin + ": there is nothing in it; write sections such as 'model:'");
    }
    RawValue root = builder.take();
    Builder second(origin);
    if (parser.HandleNextDocument(second)) {
      throw ConfigError(origin + ": holds several documents; keep one");
    }
    if (root.kind != RawValue::Kind::kMap) {
      throw ConfigError(origin + ": is not a mapping of sections such as 'model:' to settings");
    }
    return root;
  } catch (const YAML::Exception& error) {
    throw ConfigError(
        fmt::format("{}, line {}: not YAML: {}", origin, error.mark.line + 1, error.msg));
  }
}

std::string read_config_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    throw ConfigError(path.string() + ": there is no such file; give --config a YAML file");
  }
  const auto size = std::filesystem::file_size(path, error);
  if (error || size > kLargestFile) {
    throw ConfigError(fmt::format("{}: too large for a configuration (at most {} bytes)",
                                  path.string(), kLargestFile));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(size, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(size))) {
    throw ConfigError(path.string() + ": cannot be read");
  }
  return text;
}

}  // namespace spillway::config
