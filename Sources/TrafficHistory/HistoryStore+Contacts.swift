package import SQLiteDatabase
import TrafficLimits
package import TrafficModel

extension HistoryStore {
    private static let day: Int64 = 86_400

    /// Says which contacts are new, and knows them from now on: all of them, or none if this throws.
    ///
    /// - Parameter time: The present: seconds since 1970.
    /// - Returns: An answer for each, in the same order.
    /// - Throws: ``SQLiteError``.
    package func learn(_ contacts: [Contact], at time: Int64) throws(SQLiteError) -> [ContactAnswer] {
        var places = if let places = self.contactPlaces { places } else { try self.countContacts() }
        var answers: [ContactAnswer] = []
        try self.file.transaction { () throws(SQLiteError) in
            for contact in contacts { answers.append(try self.learn(contact, at: time, &places)) }
        }
        self.contactPlaces = places
        return answers
    }

    private func learn(
        _ contact: Contact,
        at time: Int64,
        _ places: inout GroupPlaces
    ) throws(SQLiteError) -> ContactAnswer {
        let series = HistorySeries.group(contact.process)
        let known = try self.identifier(of: series)
        let day = SQLiteFile.Value.number(time / Self.day)
        if let known {
            let key = [SQLiteFile.Value.number(known), .text(contact.destination)]
            if try self.file.number("SELECT count(*) FROM contact WHERE series = ? AND destination = ?", key) > 0 {
                try self.file.run(
                    "UPDATE contact SET day = ? WHERE series = ? AND destination = ? AND day < ?",
                    [day] + key + [day]
                )
                return .known
            }
        }
        guard places.hasRoom(for: series.uid) else { return .noRoom }
        places.take(for: series.uid)
        let id = if let known { known } else { try self.insert(series) }
        try self.file.run("INSERT INTO contact VALUES (?, ?, ?)", [.number(id), .text(contact.destination), day])
        // A clock that was wrong by years must not keep a group silent for years.
        try self.file.run(
            "INSERT INTO contact_group VALUES (?, ?) ON CONFLICT DO UPDATE SET since = min(since, excluded.since)",
            [.number(id), .number(time)]
        )
        let since = try self.file.number("SELECT since FROM contact_group WHERE series = ?", [.number(id)])
        return .new(groupSince: Timestamp(seconds: since))
    }

    private func countContacts() throws(SQLiteError) -> GroupPlaces {
        var places = GroupPlaces(Contact.learned)
        try self.file.run("SELECT uid FROM contact JOIN series ON id = series", []) { row in
            places.take(for: row.number(0).flatMap { UInt32(exactly: $0) })
        }
        return places
    }

    /// Removes contacts that were not seen for long, and groups without contacts.
    func forgetContacts(at time: Int64) throws(SQLiteError) {
        try self.file.run("DELETE FROM contact WHERE day < ?", [.number(time / Self.day - Contact.days)])
        try self.file.run("DELETE FROM contact_group WHERE series NOT IN (SELECT series FROM contact)")
        self.contactPlaces = nil
    }
}
