import TestSupport
import Testing

@testable import TrafficView

@Suite("Text from outside")
struct TypefaceTests {
    @Test(
        "no character that controls a terminal passes",
        arguments: [
            ("plain name", "plain name"),
            ("\u{1b}[2J", "\\x1b[2J"),
            ("\u{1b}]0;title\u{7}", "\\x1b]0;title\\x07"),
            ("\u{9b}31m", "\\x9b31m"),
            ("a\r\nb\tc", "a\\r\\nb\\tc"),
            ("\u{0}\u{7f}", "\\x00\\x7f"),
            ("abc\u{202e}fdp.exe", "abc\\u{202e}fdp.exe"),
            ("\u{2066}x\u{2069}", "\\u{2066}x\\u{2069}"),
            ("a\u{200b}b\u{feff}", "a\\u{200b}b\\u{feff}"),
            ("\u{2028}\u{2029}", "\\u{2028}\\u{2029}"),
            ("👩\u{200d}💻", "👩\\u{200d}💻"),
            ("👍\u{1f3fd}", "👍\\u{1f3fd}"),
            ("\u{e0041}", "\\u{e0041}"),
            ("\u{e000}", "\\u{e000}"),
            ("\u{fffd}", "\u{fffd}"),
            ("日本語", "日本語"),
            ("שלום", "שלום"),
            ("e\u{301}", "e\u{301}"),
            ("\u{301}", "\\u{301}"),
            ("e\u{301}\u{302}\u{303}", "e\u{301}\u{302}\\u{303}"),
            ("back\\slash", "back\\slash"),
        ]
    )
    func sanitizing(_ raw: String, _ harmless: String) {
        #expect(Fixture.unicode.printable(raw) == harmless)
    }

    @Test("ASCII shows other letters as question marks, and harmful characters as usual")
    func ascii() {
        #expect(Typeface.ascii.printable("naïve 日本 \u{1b}\u{202e}") == "na?ve ?? \\x1b\\u{202e}")
    }

    @Test("invalid UTF-8 arrives as replacement characters and stays harmless")
    func invalid() {
        let text = String(decoding: [0x61, 0xff, 0x1b, 0xc3] as [UInt8], as: UTF8.self)
        #expect(Fixture.unicode.printable(text) == "a\u{fffd}\\x1b\u{fffd}")
    }

    @Test("a limit stops reading early")
    func limit() {
        #expect(Fixture.unicode.printable(String(repeating: "é", count: 100_000), limit: 3) == "ééé")
    }

    @Test("seeded random text never leaves a character that controls the terminal")
    func random() {
        var generator = Seeded(7)
        for _ in 0..<2000 {
            var text = ""
            for _ in 0..<Int.random(in: 0...20, using: &generator) {
                guard let scalar = Unicode.Scalar(UInt32.random(in: 0...0x2100, using: &generator)) else { continue }
                text.unicodeScalars.append(scalar)
            }
            for typeface in [Fixture.unicode, .ascii] {
                let printable = typeface.printable(text)
                for width in [0, 1, 7] {
                    #expect(typeface.columns(of: typeface.fitted(printable, to: width)) == width)
                }
                #expect(
                    printable.unicodeScalars.allSatisfy {
                        $0.properties.generalCategory != .control && $0.properties.generalCategory != .format
                    }
                )
            }
        }
    }

    @Test(
        "fitting cuts at cells, not at characters",
        arguments: [
            ("abcdef", 6, "abcdef"), ("abcdef", 5, "abcd…"), ("abcdef", 1, "…"), ("abcdef", 0, ""),
            ("日本語", 6, "日本語"), ("日本語", 5, "日本…"), ("日本語", 4, "日… "), ("日本語", 2, "… "),
            ("ab", 4, "ab  "),
        ]
    )
    func fitting(_ text: String, _ width: Int, _ expected: String) {
        #expect(Fixture.unicode.fitted(text, to: width) == expected)
    }

    @Test("fitting to the right pads on the left")
    func right() {
        #expect(Fixture.unicode.fitted("ab", to: 4, .right) == "  ab")
        #expect(Typeface.ascii.fitted("abcdef", to: 4, .right) == "abc~")
    }

    @Test("wrapping breaks at blanks and, where there are none, where the line ends")
    func wrapping() {
        #expect(Fixture.unicode.wrapped("one two three", to: 7) == ["one two", "three"])
        #expect(Fixture.unicode.wrapped("abcdefghij", to: 4) == ["abcd", "efgh", "ij"])
        #expect(Fixture.unicode.wrapped("", to: 4) == [""])
        #expect(Fixture.unicode.wrapped("日本語", to: 4) == ["日本", "語"])
        #expect(Fixture.unicode.wrapped("日", to: 1) == ["日"])
    }
}
