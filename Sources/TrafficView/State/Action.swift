/// What a person can ask of the screen. Keys become actions in ``KeyBindings``, actions change ``TopState``.
public enum Action: Sendable, Hashable {
    case quit
    /// Lines down; negative goes up. In a page of text it scrolls.
    case move(Int)
    /// Screens down; negative goes up.
    case page(Int)
    case moveToTop, moveToBottom
    case toggleExpansion, expand, collapse
    case sort(SortKey)
    /// Columns to the right; negative goes left.
    case sortByNeighbour(Int)
    case reverse
    case group(Int)
    case toggleMeasure, toggleUnits, togglePause, togglePin, toggleDetails
    /// Open rows show APIs in place of sockets, or sockets again.
    case toggleEndpoints
    case show(Page)
    /// Leaves the page, the prompt or the details, whichever is uppermost.
    case close
    case startFilter, clearFilter
    case edit(LineEditor.Edit)
    case acceptFilter
}

/// Text over the whole screen.
public enum Page: Sendable, Hashable {
    case help
    /// Everything known of the row under the cursor.
    case details
    /// How the bytes are counted, what that misses, and what was lost.
    case capture
}

/// A key as the terminal reports it.
public enum Key: Sendable, Hashable {
    case character(Character)
    case up, down, left, right, pageUp, pageDown, home, end
    case enter, escape, backspace, delete, tab
    case control(Character)
}
