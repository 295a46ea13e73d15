#include "training/data/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace spillway::training {
namespace {

std::optional<std::int64_t> first_error(const std::string& text, std::size_t piece = 1) {
  Utf8Checker checker;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    const std::string part = text.substr(at, piece);
    checker.feed({reinterpret_cast<const unsigned char*>(part.data()), part.size()});
  }
  return checker.error_offset();
}

TEST(Utf8, AsciiAndCharactersOfEveryLengthAreText) {
  const std::string text = "plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82";
  for (const std::size_t piece : {1U, 2U, 3U, 100U})
    EXPECT_EQ(first_error(text, piece), std::nullopt);
}

TEST(Utf8, TheFirstAndLastCodePointOfEachLengthAreText) {
  EXPECT_EQ(first_error("\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"),
            std::nullopt);
}

TEST(Utf8, AStrayContinuationByteIsFound) { EXPECT_EQ(first_error("ab\x80"), 2); }
TEST(Utf8, OverlongFormsAreFound) {
  EXPECT_EQ(first_error("\xc0\xaf"), 0);
  EXPECT_EQ(first_error("\xe0\x80\xaf"), 1);
  EXPECT_EQ(first_error("\xf0\x8f\xbf\xbf"), 1);
}
TEST(Utf8, SurrogatesAreFound) { EXPECT_EQ(first_error("a\xed\xa0\x80"), 2); }
TEST(Utf8, CodePointsAboveTheLastAreFound) {
  EXPECT_EQ(first_error("\xf4\x90\x80\x80"), 1);
  EXPECT_EQ(first_error("\xf5\x80\x80\x80"), 0);
}
TEST(Utf8, ACharacterThatTheEndCutsOffIsFoundAtItsStart) {
  EXPECT_EQ(first_error("abc\xe2\x82"), 3);
}

}  // namespace
}  // namespace spillway::training
