import TrafficModel

/// Takes the fields of a row one by one, with names and in order. JSON, CSV and the header of CSV are sinks of the same
/// rows, so each field is named and computed in one place only.
///
/// A field that is `nil` is unknown: absent in JSON, an empty cell in CSV. A row names all its fields at every call, in
/// the same order, so that columns are stable.
protocol FieldSink {
    /// Any text, such as a name that a process gave itself.
    mutating func text(_ key: some CodingKey, _ value: String?)
    /// A word that this project defines: ASCII letters, digits, `_`.
    mutating func word(_ key: some CodingKey, _ value: (some RawRepresentable<String>)?)
    mutating func time(_ key: some CodingKey, _ value: Timestamp?)
    mutating func address(_ key: some CodingKey, _ value: InternetAddress)
    mutating func number(_ key: some CodingKey, _ value: (some FixedWidthInteger)?)
    mutating func number(_ key: some CodingKey, _ value: Double?)
    mutating func flag(_ key: some CodingKey, _ value: Bool?)
    /// Any texts. One cell in CSV, with spaces between.
    mutating func texts(_ key: some CodingKey, _ values: [String]?)
    /// Fields of an inner object. In CSV they are columns of their own, with the key as prefix.
    mutating func nested(_ key: some CodingKey, _ fields: some Row)
    /// The same for an object that may be missing: absent in JSON, empty cells in CSV.
    ///
    /// - Parameter blank: Gives the column names.
    mutating func optional<Fields: Row>(_ key: some CodingKey, _ fields: Fields?, blank: Fields)
    /// An object with a number for each word. One cell in CSV: `ok=3 http_4xx=1`.
    mutating func words<Word: RawRepresentable<String> & Hashable>(_ key: some CodingKey, _ numbers: [Word: UInt64])
    /// An object with an object for each word. One cell in CSV: each element's `label`, with spaces between.
    mutating func members<Word: RawRepresentable<String> & Hashable, Fields: Row>(
        _ key: some CodingKey,
        _ members: [Word: Fields],
        label: (Word, Fields) -> String
    )
    /// A list of objects. One cell in CSV: each element's `label`, with spaces between.
    mutating func list<Element: Row>(_ key: some CodingKey, _ elements: [Element], label: (Element) -> String)
    /// A list of objects, absent if it is unknown. Only in JSON, because a cell can't hold a table.
    mutating func rows(_ key: some CodingKey, _ rows: [some Row]?)
}

/// A value that is a row of fields.
protocol Row {
    func write(to sink: inout some FieldSink)
}
