// Tables as text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::report {

enum class Align : unsigned char { kLeft, kRight };

/// Rows of cells with a heading, printed in columns of equal width. Cells are UTF-8.
class Table {
 public:
  struct Column {
    std::string heading;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns);

  /// Throws UsageError if the number of cells is not the number of columns.
  void add_row(std::vector<std::string> cells);

  /// Lines without a newline at the end; no line ends in a space.
  [[nodiscard]] std::string render() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Characters of a UTF-8 text, which is its width as long as none is wide or combining.
[[nodiscard]] std::size_t num_characters(std::string_view text);

}  // namespace spillway::report
