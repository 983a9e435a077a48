import ArgumentParser
import CTerminal
import CommandOptions
import Glibc
import TrafficModel
import TrafficQuery
import TrafficView

/// How `top` looks, of the present, the past and a recording.
struct TopLook: ParsableArguments {
    @OptionGroup var color: ColorOptions
    @OptionGroup var unit: UnitOptions

    @Option(
        name: .shortAndLong,
        help: "Order of the rows: largest first for amounts, A to Z for names. (default: rate, or as kept)"
    )
    var sort: SortKey?

    @Flag(name: .shortAndLong, help: "Reverse the order.")
    var reverse = false

    @Option(name: .shortAndLong, help: "What makes one row. (default: process, or as kept)")
    var group: Grouping?

    @Flag(help: "Draw with ASCII; the default where the locale is not UTF-8.")
    var ascii = false

    @Flag(inversion: .prefixedNo, help: "Take the mouse. Without, the terminal can select text.")
    var mouse = true

    @Flag(help: "Print one picture as text and exit.")
    var once = false

    @Option(
        help: ArgumentHelp("With --once: width in cells. (default: the terminal's, COLUMNS, or 80)", valueName: "n")
    )
    var width: Int?

    @Option(help: ArgumentHelp("With --once: height in lines. (default: as many as there are rows)", valueName: "n"))
    var height: Int?

    /// - Throws: `ValidationError` for an option of `--once` without it.
    func check(limit: Int?) throws {
        for (name, value) in [("--width", self.width), ("--height", self.height), ("--limit", limit)] {
            guard let value else { continue }
            if !self.once { throw ValidationError("\(name) is for --once.") }
            if !(1...10000).contains(value) { throw ValidationError("\(name) must be between 1 and 10000.") }
        }
    }

    /// The settings with what the options say.
    func settings(over kept: TopSettings) -> TopSettings {
        var settings = kept
        if let sort {
            settings.sort = sort
            settings.reverse = false
            // An order by rates or by totals needs their columns.
            settings.measure = .rates
        }
        if self.reverse { settings.reverse = true }
        if let group { settings.group = group }
        if self.unit.bits { settings.units = .bits }
        return settings
    }

    /// The size of the picture of `--once`.
    var size: TopState.Size {
        let width = self.width ?? StandardStream.output.columns ?? environment("COLUMNS").flatMap { Int($0) } ?? 80
        return TopState.Size(width: width, height: self.height ?? 24)
    }

    func print(_ state: TopState, limit: Int?) throws {
        let frame = self.height == nil ? state.wholeFrame(limit: limit) : state.frame()
        try StandardStream.output.write(frame, color: self.color)
    }

    /// Runs the screen until the person quits.
    ///
    /// - Returns: What the person chose, and the signal that ended the screen; `nil` where none did.
    func runScreen(
        _ state: TopState,
        feed: (Int32) -> any TopFeed
    ) throws(Failure) -> (settings: TopSettings, signal: Int32?) {
        // This runs after the loop and its screen are gone.
        defer { terminal_signals_remove() }
        do throws(TerminalError) {
            let loop = try TopLoop(
                state: state,
                feed: feed,
                inColor: self.color.isWanted(.output),
                takesMouse: self.mouse
            )
            return loop.run()
        } catch {
            throw .terminal(error)
        }
    }
}
