import FoundationEssentials
import Hummingbird
import TrafficDocuments
import TrafficExport
import TrafficModel
import TrafficQuery

/// Which rows of a snapshot a path returns.
enum SnapshotView: String, CaseIterable {
    case snapshot, processes, sockets, endpoints

    /// The list for CSV.
    var table: Snapshot.Table {
        switch self {
        case .snapshot, .processes: .processes
        case .sockets: .sockets
        case .endpoints: .endpoints
        }
    }

    func select(from snapshot: Snapshot, of all: Snapshot) -> Snapshot {
        var result = snapshot
        switch self {
        case .snapshot: break
        case .processes:
            result.sockets = nil
            result.socketsUnlisted = nil
            result.endpoints = nil
        case .endpoints:
            result.processes = nil
            result.exited = nil
            result.sockets = nil
            result.socketsUnlisted = nil
            result.interfaces = nil
        case .sockets:
            let owners = Set((snapshot.sockets ?? []).flatMap { $0.owners.map(\.identity) })
            result.processes = all.processes?.filter { owners.contains($0.identity) }
            result.exited = nil
            result.endpoints = nil
            result.interfaces = nil
        }
        return result
    }
}

/// The parameters of a request for one or more snapshots.
struct SnapshotQuery {
    var view: SnapshotView
    var filter: Filter
    /// The pids whose sockets are wanted. `nil`: the sockets of all processes.
    var socketsOf: Set<Int32>?
    var grouping: EndpointGrouping
    var viewer: Viewer

    /// - Throws: ``Problem`` if the viewer may not see the requested rows.
    init(
        view: SnapshotView,
        filter: Filter,
        socketsOf: Set<Int32>? = nil,
        grouping: EndpointGrouping = .route,
        viewer: Viewer
    ) throws(Problem) {
        if viewer == .network, view == .sockets || filter.needsSockets { throw .socketsWithheld }
        self.view = view
        self.filter = filter
        self.socketsOf = socketsOf
        self.grouping = grouping
        self.viewer = viewer
    }

    /// First selects what the viewer may see, then what the client asked for.
    func apply(to reading: Reading) -> Snapshot {
        let visible = reading.grouped(by: self.grouping).visible(to: self.viewer)
        // The filter comes first, because its result for a process may depend on all sockets of the process.
        var result = self.view.select(from: visible.filtered(by: self.filter).snapshot, of: visible.snapshot)
        // A filter on sockets does not see sockets that are not listed.
        if self.filter.needsSockets { result.socketsUnlisted = visible.snapshot.socketsUnlisted }
        if let socketsOf, result.sockets != nil {
            result.sockets?.removeAll { !$0.owners.contains { socketsOf.contains($0.identity.pid) } }
            result.socketsOf = socketsOf.sorted()
        }
        return result
    }
}

/// The query part of a URI, decoded as HTML forms encode it: `%20` and `+` are spaces.
///
/// An unknown parameter is an error. Otherwise a request with a misspelt `filter` would silently show everything.
struct QueryParameters {
    private var values: [String: String] = [:]

    /// - Throws: ``Problem`` (400) for a parameter that is not `known`, comes twice or is not UTF-8.
    init(_ request: Request, known: [String]) throws(Problem) {
        for pair in (request.uri.query ?? "").split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let decoded = parts.map(Self.decoded)
            guard let name = decoded.first ?? nil, let value = decoded.count > 1 ? decoded[1] : "" else {
                throw .badParameter(String(parts.first ?? ""), "not percent-encoded UTF-8")
            }
            guard known.contains(name) else {
                let list = known.isEmpty ? "none" : known.joined(separator: ", ")
                throw .badParameter(name, "unknown here; known: \(list)")
            }
            guard self.values.updateValue(value, forKey: name) == nil else {
                throw .badParameter(name, "given twice")
            }
        }
    }

    /// Foundation can decode this too, but only in its part with the texts of all languages, which would double the
    /// size of the daemon.
    private static func decoded(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): bytes.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                guard rest.prefix(2).count == 2,
                    rest.prefix(2).allSatisfy({ $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "-") }),
                    let value = UInt8(Substring(rest.prefix(2)), radix: 16)
                else { return nil }
                bytes.append(value)
                rest = rest.dropFirst(2)
            default: bytes.append(byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }

    func value(_ name: String) -> String? { self.values[name] }

    func filter() throws(Problem) -> Filter {
        do throws(FilterError) {
            return try Filter(self.values["filter"] ?? "")
        } catch {
            throw .badParameter("filter", error.description)
        }
    }

    /// Pids, separated by commas.
    ///
    /// - Returns: `nil` if the parameter is absent.
    func pids(_ name: String) throws(Problem) -> Set<Int32>? {
        guard let text = self.values[name] else { return nil }
        var pids: Set<Int32> = []
        for word in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let pid = Int32(word), pid >= 0 else { throw .badParameter(name, "'\(word)' is not a pid") }
            pids.insert(pid)
        }
        return pids
    }

    /// - Parameter fallback: The value if the parameter is absent.
    func word<Word>(_ name: String, fallback: Word) throws(Problem) -> Word
    where Word: RawRepresentable<String> & CaseIterable {
        guard let text = self.values[name] else { return fallback }
        guard let word = Word(rawValue: text) else {
            let words = Word.allCases.map(\.rawValue).joined(separator: ", ")
            throw .badParameter(name, "'\(text)' is not one of \(words)")
        }
        return word
    }

    /// - Returns: `nil` if the parameter is absent.
    func alertPosition(_ name: String) throws(Problem) -> AlertPosition? {
        guard let text = self.values[name] else { return nil }
        guard let position = AlertPosition(text) else {
            throw .badParameter(name, "'\(text)' is not the id of a change of an alert, such as 00c0ffee00c0ffee-17")
        }
        return position
    }

    /// `true` or `false`; `false` if the parameter is absent.
    func flag(_ name: String) throws(Problem) -> Bool {
        guard let text = self.values[name] else { return false }
        guard let flag = Bool(text) else { throw .badParameter(name, "'\(text)' is not true or false") }
        return flag
    }

    /// A time of at least 0.1 seconds.
    ///
    /// - Returns: Nanoseconds, or `nil` if the parameter is absent.
    func seconds(_ name: String, atMost limit: Int) throws(Problem) -> UInt64? {
        guard let text = self.values[name] else { return nil }
        guard let seconds = Double(text), (0.1...Double(limit)).contains(seconds) else {
            throw .badParameter(name, "'\(text)' is not a number of seconds from 0.1 to \(limit)")
        }
        return UInt64(seconds * 1e9)
    }
}
