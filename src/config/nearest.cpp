#include <algorithm>
#include <numeric>

#include "spillway/config/key_info.h"

namespace spillway::config {
namespace {

/// Damerau-Levenshtein distance with adjacent transpositions ("optimzier" is one step away).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> previous(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  std::iota(previous.begin(), previous.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

// Names longer than this are noise; comparing them would only cost time.
constexpr std::size_t kLongestName = 200;

/// A typing error changes about a third of a word at most.
std::size_t tolerance(std::size_t length) { return std::max<std::size_t>(2, length / 3); }

/// Every word of the shorter name (between underscores) is in the longer one.
bool words_within(std::string_view shorter, std::string_view longer) {
  while (!shorter.empty()) {
    const auto end = std::min(shorter.find('_'), shorter.size());
    const auto word = shorter.substr(0, end);
    if (word.empty() || longer.find(word) == std::string_view::npos) return false;
    shorter.remove_prefix(std::min(end + 1, shorter.size()));
  }
  return true;
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  if (word.empty() || word.size() > kLongestName) return {};
  std::size_t best = tolerance(word.size()) + 1;
  std::string found;
  for (const auto& candidate : candidates) {
    const auto steps = distance(word, candidate);
    if (steps < best) {
      best = steps;
      found = candidate;
    }
  }
  return found;
}

std::string nearest_key(std::string_view path) {
  const auto name = path.substr(std::min(path.rfind('.') + 1, path.size()));
  if (name.empty() || path.size() > kLongestName) return {};
  // The right name in the wrong section comes first, then a misspelt path, then a part of a name.
  for (const auto& key : all_keys()) {
    if (key.name == name) return key.path;
  }
  std::vector<std::string> paths;
  std::vector<std::string> names;
  for (const auto& key : all_keys()) {
    paths.push_back(key.path);
    names.emplace_back(key.name);
  }
  if (auto found = nearest(path, paths); !found.empty()) return found;
  if (const auto found = nearest(name, names); !found.empty()) {
    const auto at = std::find(names.begin(), names.end(), found) - names.begin();
    return paths[static_cast<std::size_t>(at)];
  }
  for (const auto& key : all_keys()) {
    if (words_within(name, key.name) && name.size() >= 4) return key.path;
  }
  return {};
}

}  // namespace spillway::config
