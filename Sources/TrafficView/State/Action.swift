/// What a person can ask of the screen. ``KeyBindings`` turns keys into actions, and actions change ``TopState``.
public enum Action: Sendable, Hashable {
    case quit
    /// Lines down; a negative number goes up. On a page of text this action scrolls.
    case move(Int)
    /// Screens down; a negative number goes up.
    case page(Int)
    case moveToTop, moveToBottom
    case toggleExpansion, expand, collapse
    case sort(SortKey)
    /// Columns to the right; a negative number goes left.
    case sortByNeighbour(Int)
    case reverse
    case group(Int)
    case toggleMeasure, toggleUnits, togglePause, togglePin, toggleDetails
    /// Open rows show endpoints in place of sockets, or sockets again.
    case toggleEndpoints
    case show(Page)
    /// Closes the page, the prompt or the details, whichever is on top.
    case close
    /// - Parameter term: The beginning of a term, which the prompt adds to the filter in force.
    case startFilter(term: String)
    case clearFilter
    case edit(LineEditor.Edit)
    case acceptFilter
    /// On a row: puts the cursor there; opens or closes the row that has the cursor already. On a title: sorts.
    ///
    /// - Parameters:
    ///   - row: The line of the screen; the highest is 0.
    ///   - column: The cell of that line; the leftmost is 0.
    case click(row: Int, column: Int)
    /// Sends the whole picture again, for example after another program wrote on the terminal.
    case redraw
    /// Moves in a recording.
    case replay(Replay.Move)
}

/// Text over the whole screen.
public enum Page: Sendable, Hashable {
    case help
    /// Everything known about the row under the cursor.
    case details
    /// How bytes are counted, which bytes the method misses, and what was lost.
    case capture
}

/// A key or a movement of the mouse, as the terminal reports it.
public enum Key: Sendable, Hashable {
    case character(Character)
    case up, down, left, right, pageUp, pageDown, home, end
    case enter, escape, backspace, delete, tab
    case control(Character)
    /// F1 and so on.
    case function(Int)
    /// The mouse's first button was pressed. The highest row and the leftmost column are 0.
    case click(row: Int, column: Int)
    case wheelUp, wheelDown
}
