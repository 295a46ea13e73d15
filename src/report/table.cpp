#include "spillway/report/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "spillway/core/error.h"

namespace spillway::report {

std::size_t num_characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  }));
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add_row(std::vector<std::string> cells) {
  if (cells.size() != columns_.size()) {
    throw UsageError(
        fmt::format("table: a row of {} cells for {} columns", cells.size(), columns_.size()));
  }
  rows_.push_back(std::move(cells));
}

namespace {

void append_cell(std::string& line, const std::string& cell, std::size_t width, Align align) {
  const std::string padding(width - num_characters(cell), ' ');
  line += align == Align::kRight ? padding + cell : cell + padding;
}

void finish_line(std::string& text, std::string line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
  text += line + "\n";
}

}  // namespace

std::string Table::render() const {
  constexpr std::string_view kGap = "  ";
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = num_characters(columns_[c].heading);
    for (const auto& row : rows_) width = std::max(width, num_characters(row[c]));
    widths.push_back(width);
  }
  std::string text;
  std::string headings;
  std::string rule;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (c > 0) headings += kGap;
    if (c > 0) rule += kGap;
    append_cell(headings, columns_[c].heading, widths[c], columns_[c].align);
    rule += std::string(widths[c], '-');
  }
  finish_line(text, headings);
  finish_line(text, rule);
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c > 0) line += kGap;
      append_cell(line, row[c], widths[c], columns_[c].align);
    }
    finish_line(text, line);
  }
  text.pop_back();
  return text;
}

}  // namespace spillway::report
