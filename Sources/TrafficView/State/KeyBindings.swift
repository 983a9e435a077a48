/// A key of the list. One table of these decides what the keys do, and in which order the help shows the keys.
struct KeyBinding: Sendable {
    var keys: [Key]
    /// How the help spells the keys; `nil` for a further key of the binding before.
    var label: String?
    var help: String
    var action: Action

    init(_ keys: [Key], _ label: String?, _ help: String, _ action: Action) {
        self.keys = keys
        self.label = label
        self.help = help
        self.action = action
    }
}

public enum KeyBindings {
    static let list: [(title: String, bindings: [KeyBinding])] = [
        (
            "Move",
            [
                KeyBinding([.up, "k"], "Up k", "up; the cursor follows its row", .move(-1)),
                KeyBinding([.wheelUp], nil, "", .move(-3)),
                KeyBinding([.down, "j"], "Down j", "down", .move(1)),
                KeyBinding([.wheelDown], nil, "", .move(3)),
                KeyBinding([.pageUp, .control("b")], "PgUp", "a screen up", .page(-1)),
                KeyBinding([.pageDown, .control("f")], "PgDn", "a screen down", .page(1)),
                KeyBinding([.home], "Home", "to the top and stay there", .moveToTop),
                KeyBinding([.end, "G"], "End", "to the bottom", .moveToBottom),
                KeyBinding([.enter], "Enter", "open or close a row", .toggleExpansion),
                KeyBinding([.right, "+", "="], "Right +", "open; --at: a minute later", .expand),
                KeyBinding([.left, "-"], "Left -", "close; --at: a minute before", .collapse),
            ]
        ),
        (
            "Order",
            [
                KeyBinding(["<", ","], "< >", "sort by the next column", .sortByNeighbour(-1)),
                KeyBinding([">", ".", .function(6)], nil, "", .sortByNeighbour(1)),
                KeyBinding(["r", "R", "I"], "r I", "reverse", .reverse),
                KeyBinding(["A"], "A", "sort by traffic both ways", .sort(.rate)),
                KeyBinding(["S", "s"], "S s", "sort by sent", .sort(.sentRate)),
                KeyBinding(["D"], "D", "sort by received (down)", .sort(.receivedRate)),
                KeyBinding(["C"], "C", "sort by count of sockets", .sort(.sockets)),
                KeyBinding(["P"], "P", "sort by pid", .sort(.pid)),
                KeyBinding(["N"], "N", "sort by name", .sort(.name)),
                KeyBinding(["U"], "U", "sort by user", .sort(.user)),
            ]
        ),
        (
            "Show",
            [
                KeyBinding(["/", .function(3), .function(4)], "/ F4", "filter", .startFilter(term: "")),
                KeyBinding(["u"], "u", "filter by user", .startFilter(term: "user:")),
                KeyBinding(["\\"], "\\", "no filter", .clearFilter),
                KeyBinding(["g"], "g", "group: unit, user, remote", .group(1)),
                KeyBinding(["e", "a"], "e a", "open rows: sockets or endpoints", .toggleEndpoints),
                KeyBinding(["t", "m"], "t m", "rates or totals", .toggleMeasure),
                KeyBinding(["b"], "b", "bytes or bits", .toggleUnits),
                KeyBinding([" "], "Space", "pause; counting goes on", .togglePause),
                KeyBinding(["f"], "f", "freeze: keep the row first", .togglePin),
                KeyBinding(["d"], "d", "details below the list", .toggleDetails),
                KeyBinding(["i"], "i", "all details of the row", .show(.details)),
                KeyBinding(["c"], "c", "capture: blind spots, losses", .show(.capture)),
                KeyBinding(["?", "h", .function(1)], "? h F1", "this help", .show(.help)),
                KeyBinding([.control("l")], "^L", "draw the screen again", .redraw),
                KeyBinding([.escape], "Esc", "close", .close),
                KeyBinding(["q", "Q", .function(10)], "q F10", "quit", .quit),
            ]
        ),
    ]

    /// In a recording alone.
    static let replay: (title: String, bindings: [KeyBinding]) = (
        "Recording",
        [
            KeyBinding(["]"], "[ ]", "a snapshot back, forward", .replay(.step(1))),
            KeyBinding(["["], nil, "", .replay(.step(-1))),
            KeyBinding(["}"], "{ }", "a minute back, forward", .replay(.minutes(1))),
            KeyBinding(["{"], nil, "", .replay(.minutes(-1))),
            KeyBinding([")"], "( )", "slower, faster", .replay(.faster(1))),
            KeyBinding(["("], nil, "", .replay(.faster(-1))),
            KeyBinding(["^"], "^ $", "to the beginning, to the end", .replay(.first)),
            KeyBinding(["$"], nil, "", .replay(.last)),
        ]
    )

    private static let listActions: [Key: Action] = (Self.list + [Self.replay]).flatMap(\.bindings).reduce(into: [:]) {
        actions,
        binding in
        for key in binding.keys { actions[key] = binding.action }
    }

    /// - Returns: `nil` for a key that does nothing in `mode`.
    public static func action(for key: Key, in mode: TopState.Mode) -> Action? {
        if case .click(let row, let column) = key {
            if case .page = mode { return nil }
            return .click(row: row, column: column)
        }
        return switch mode {
        case .list: self.listActions[key]
        case .filter: self.filterAction(for: key)
        case .page(let page, _): self.pageAction(for: key, on: page)
        }
    }

    private static func filterAction(for key: Key) -> Action? {
        switch key {
        case .character(let character): .edit(.insert(character))
        case .enter: .acceptFilter
        case .escape, .control("g"): .close
        case .backspace: .edit(.deleteBackward)
        case .delete, .control("d"): .edit(.deleteForward)
        case .control("w"): .edit(.deleteWord)
        case .control("u"): .edit(.deleteToStart)
        case .left, .control("b"): .edit(.left)
        case .right, .control("f"): .edit(.right)
        case .home, .control("a"): .edit(.start)
        case .end, .control("e"): .edit(.end)
        case .up: .move(-1)
        case .down: .move(1)
        case .wheelUp, .wheelDown, .control("l"): self.listActions[key]
        case .pageUp: .page(-1)
        case .pageDown: .page(1)
        default: nil
        }
    }

    /// The list's keys for moving scroll the page. The keys that quit, close or open, and the page's own key, close it.
    private static func pageAction(for key: Key, on page: Page) -> Action? {
        switch self.listActions[key] {
        case .move(let lines): return .move(lines)
        case .page(let screens): return .page(screens)
        case .moveToTop: return .moveToTop
        case .moveToBottom: return .moveToBottom
        case .show(let other): return other == page ? .close : .show(other)
        case .toggleUnits: return .toggleUnits
        case .togglePause: return key == " " ? .page(1) : .togglePause
        case .redraw: return .redraw
        case .quit, .close, .toggleExpansion, .toggleDetails: return .close
        default: return nil
        }
    }
}

extension Key: ExpressibleByExtendedGraphemeClusterLiteral {
    public init(extendedGraphemeClusterLiteral character: Character) {
        self = .character(character)
    }
}
