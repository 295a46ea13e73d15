#include "planner/diagnose/line_reader.h"

#include <gmock/gmock.h>

#include <sstream>

namespace spillway::planner {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  LineReader reader(in);
  std::vector<std::string> out;
  while (const auto line = reader.next()) out.emplace_back(*line);
  return out;
}

TEST(LineReader, EndsLinesAtNewlinesAndCarriageReturns) {
  EXPECT_THAT(lines_of("a\nb\rc\r\nd"), testing::ElementsAre("a", "b", "c", "", "d"));
  EXPECT_THAT(lines_of(""), testing::IsEmpty());
}

TEST(LineReader, TakesOutColoursTitlesAndControlCharacters) {
  EXPECT_THAT(lines_of("\x1b[31mred\x1b[0m text\n"), testing::ElementsAre("red text"));
  EXPECT_THAT(lines_of("\x1b]0;title\x07shown\n"), testing::ElementsAre("shown"));
  EXPECT_THAT(lines_of(std::string("a\0b\0c\0\n\0", 8)), testing::ElementsAre("abc", ""));
}

TEST(LineReader, RecoversFromAnUnfinishedEscapeSequence) {
  EXPECT_THAT(lines_of("\x1b]0;never closed\nnext\n"), testing::ElementsAre("", "next"));
  EXPECT_THAT(lines_of("\x1b[12\nnext\n"), testing::ElementsAre("", "next"));
}

TEST(LineReader, GivesAnEndlessLineInPiecesThatOverlap) {
  const std::string marker = "CUDA out of memory";
  std::string text(LineReader::kMaxLine - 9, 'x');
  text += marker + std::string(1000, 'y');
  const auto pieces = lines_of(text);
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_NE(pieces[1].find(marker), std::string::npos);
}

TEST(LineReader, NumbersLinesByNewlines) {
  std::istringstream in("a\rb\nc\n");
  LineReader reader(in);
  std::vector<std::int64_t> numbers;
  while (reader.next()) numbers.push_back(reader.line_number());
  EXPECT_THAT(numbers, testing::ElementsAre(1, 1, 2));
}

TEST(RankOf, ReadsThePrefixesOfLaunchers) {
  EXPECT_EQ(rank_of("[rank3]: Traceback"), 3);
  EXPECT_EQ(rank_of("[rank3]:[E] message"), 3);
  EXPECT_EQ(rank_of("[default12]: message"), 12);
  EXPECT_EQ(rank_of("[1,5]<stderr>: message"), 5);
  EXPECT_EQ(rank_of("[7]:message"), 7);
  EXPECT_EQ(rank_of("07: message"), 7);
  EXPECT_EQ(rank_of("2024-01-01 [Rank 9] message"), 9);
  EXPECT_EQ(rank_of("plain message"), std::nullopt);
  EXPECT_EQ(rank_of("2024-01-01 12:30:00 message"), std::nullopt);
  EXPECT_EQ(rank_of("[99999999999999]: message"), std::nullopt);
}

TEST(Printable, ShowsNoByteThatATerminalWouldObey) {
  EXPECT_EQ(printable("a\x9b"
                      "b\xff\tc",
                      0, 80),
            "a?b? c");
  EXPECT_EQ(printable("   ", 0, 80), "");
}

TEST(Printable, CutsAroundTheFocus) {
  const std::string text = std::string(500, 'a') + "HERE" + std::string(500, 'b');
  const auto cut = printable(text, 500, 100);
  EXPECT_LE(cut.size(), 106U);
  EXPECT_NE(cut.find("HERE"), std::string::npos);
}

}  // namespace
}  // namespace spillway::planner
