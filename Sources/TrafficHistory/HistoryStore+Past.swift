package import SQLiteDatabase
import TrafficDocuments
package import TrafficModel

extension HistoryStore {
    /// The past of each endpoint. It ends with the last hour, by the clock, that was over an hour ago.
    ///
    /// - Parameter now: Seconds since 1970.
    /// - Throws: ``SQLiteError``.
    package func pasts(
        of endpoints: [ServiceEndpoint],
        now: Int64
    ) throws(SQLiteError) -> [ServiceEndpoint: EndpointPast] {
        let level = HistoryLevel.hour
        let until = level.start(of: now -| 3_600)
        guard let table = HistorySeries.Kind.endpoint.table(level) else { return [:] }
        var pasts: [ServiceEndpoint: EndpointPast] = [:]
        for endpoint in endpoints {
            pasts[endpoint] = EndpointPast(
                since: Timestamp(seconds: until),
                until: Timestamp(seconds: until),
                mostRequests: 0
            )
            guard let id = try self.identifier(of: .endpoint(endpoint)) else { continue }
            // One look for each hour. The key begins with the time, so a look for the series alone would read all rows.
            try self.file.run(
                """
                SELECT min(sum.time), max(requests) FROM counted CROSS JOIN \(table) AS sum
                ON sum.time = counted.time AND series = ? WHERE level = ? AND counted.time >= ? AND counted.time < ?
                """,
                [
                    .number(id), .text(level.rawValue), .number((until -| EndpointPast.longestSeconds) / 60),
                    .number(until / 60),
                ]
            ) { row in
                guard let since = row.number(0), let most = row.number(1) else { return }
                pasts[endpoint]?.since = Timestamp(seconds: since * 60)
                pasts[endpoint]?.mostRequests = UInt64(clamping: most)
            }
        }
        return pasts
    }
}
