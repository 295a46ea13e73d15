#include "spillway/report/table.h"

#include <gtest/gtest.h>

#include "spillway/core/error.h"

namespace spillway::report {
namespace {

TEST(Table, ColumnsLineUp) {
  Table table({{"what"}, {"bytes", Align::kRight}, {"note"}});
  table.add_row({"weights", "12", "bf16"});
  table.add_row({"münster", "1234567", ""});
  EXPECT_EQ(table.render(),
            "what       bytes  note\n"
            "-------  -------  ----\n"
            "weights       12  bf16\n"
            "münster  1234567");
}

TEST(Table, ARowOfTheWrongLengthIsRefused) {
  Table table({{"one"}, {"two"}});
  EXPECT_THROW(table.add_row({"only one"}), UsageError);
}

}  // namespace
}  // namespace spillway::report
