// Finds which of many strings occur in a line, in one pass over it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::planner {

/// Aho and Corasick's automaton over bytes ("Efficient string matching", CACM 18, 1975). Time is
/// proportional to the line, not to the number of strings.
class LiteralSet {
 public:
  explicit LiteralSet(const std::vector<std::string>& literals);

  /// Appends the index of each literal that occurs in `line`, each once, in any order.
  void find_in(std::string_view line, std::vector<int>& found);

 private:
  static constexpr int kRoot = 0;
  [[nodiscard]] int& next(int node, std::uint8_t symbol) {
    return next_[static_cast<std::size_t>(node * num_symbols_ + symbol)];
  }
  int add_node();
  void add(const std::string& literal, int index);
  void link();

  std::array<std::uint8_t, 256> symbol_of_{};  ///< 0: in no literal
  int num_symbols_ = 1;
  std::vector<int> next_;                 ///< (nodes, num_symbols)
  std::vector<int> fallback_;             ///< (nodes)
  std::vector<int> output_link_;          ///< (nodes), nearest suffix that ends a literal, or -1
  std::vector<std::vector<int>> ending_;  ///< (nodes), literals that end there
  std::vector<std::int64_t> seen_in_;     ///< (literals), the line it was last reported for
  std::int64_t line_number_ = 0;
};

}  // namespace spillway::planner
