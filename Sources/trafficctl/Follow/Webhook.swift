import FoundationEssentials
import Glibc
import HTTPCalls
import NIOHTTP1
import TrafficDocuments
import TrafficExport
import TrafficModel

/// A server that wants the changes of alerts, each in a POST.
struct Webhook: Sendable {
    /// What the server's answer means for the change.
    enum Verdict: Equatable {
        case accepted
        /// It will not take this change, however often it is asked.
        case refused(String)
        /// It may take it later, at the earliest after so many seconds.
        case later(String, afterSeconds: Double)
    }

    /// For a whole request, from the name of the host to the answer.
    private static let timeout = Duration.seconds(10)
    /// A server can't make us wait longer.
    private static let longestWait = 3_600.0

    private let url: WebhookURL
    private let token: String?
    private let tls: TLSTrust?
    /// For messages. Paths and queries of such URLs are often secrets.
    var name: String { self.url.name }

    /// - Parameter token: Of the header `Authorization: Bearer`.
    /// - Throws: `Failure.badWebhook` if the authorities of this system can't be read.
    init(_ url: WebhookURL, token: String?) throws(Failure) {
        (self.url, self.token) = (url, token)
        do throws(TLSFault) {
            self.tls = url.target.isEncrypted ? try TLSTrust(authorities: nil) : nil
        } catch {
            throw .badWebhook("\(error)")
        }
    }

    func post(_ notice: AlertNotice) async -> Verdict {
        let target = self.url.target
        var headers: HTTPHeaders = [
            "host": target.authority, "content-type": "application/json",
            "user-agent": "trafficctl/\(TrafficVersion.current)", "idempotency-key": notice.position.description,
        ]
        if let token { headers.add(name: "authorization", value: "Bearer \(token)") }
        let call = HTTPCall(
            .POST,
            target.path,
            at: .network(host: target.host, port: target.port, tls: self.tls),
            headers: headers,
            body: notice.json(),
            connectTimeout: Self.timeout
        )
        do throws(HTTPCallError) {
            // The body says nothing to us.
            let head = try await call.answer(atMost: 0, within: Self.timeout).head
            return Self.verdict(
                Int(head.status.code),
                retryAfter: head.headers.first(name: "retry-after"),
                now: Int64(time(nil))
            )
        } catch {
            return .later("\(error)", afterSeconds: 0)
        }
    }

    /// - Parameters:
    ///   - retryAfter: Seconds or a date (RFC 9110, 10.2.3).
    ///   - now: Seconds since 1970.
    static func verdict(_ status: Int, retryAfter: String?, now: Int64) -> Verdict {
        switch status {
        case 200..<300: .accepted
        case 408, 425, 429, 500..<600:
            .later("status \(status)", afterSeconds: Self.wait(retryAfter, now: now))
        // Also a redirect: whoever can answer in the server's place must not choose where alerts go.
        default: .refused("status \(status)")
        }
    }

    private static func wait(_ retryAfter: String?, now: Int64) -> Double {
        guard let text = retryAfter else { return 0 }
        if let seconds = UInt64(text) { return min(Double(seconds), Self.longestWait) }
        guard let date = Self.date(text) else { return 0 }
        return min(max(0, Double(date - now)), Self.longestWait)
    }

    /// A date such as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7), the only form that servers send today.
    ///
    /// - Returns: Seconds since 1970.
    private static func date(_ text: String) -> Int64? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT", let month = Self.months.firstIndex(of: String(words[2])) else {
            return nil
        }
        let numbers = ([words[1], words[3]] + words[4].split(separator: ":")).compactMap { Int32($0) }
        guard numbers.count == 5, numbers.allSatisfy({ 0...9_999 ~= $0 }) else { return nil }
        var date = tm()
        (date.tm_mday, date.tm_mon, date.tm_year) = (numbers[0], Int32(month), numbers[1] - 1_900)
        (date.tm_hour, date.tm_min, date.tm_sec) = (numbers[2], numbers[3], numbers[4])
        return unsafe Int64(timegm(&date))
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
}

/// The address of a webhook.
struct WebhookURL {
    let target: HTTPTarget
    /// Without path and query.
    let name: String

    /// - Throws: A sentence that says what is wrong.
    init(_ text: String) throws(Failure) {
        guard let url = URL(string: text), let scheme = url.scheme?.lowercased(), let host = url.host(), !host.isEmpty,
            ["http", "https"].contains(scheme), text.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
        else {
            // Not the text itself: it may be a secret.
            throw .badWebhook("the URL must be such as https://host.example/path")
        }
        guard url.user() == nil, url.password() == nil else {
            throw .badWebhook("the URL must have no user and password: put a token in a file, for --token-file")
        }
        guard url.fragment == nil else { throw .badWebhook("the URL must have no #fragment") }
        guard let target = HTTPTarget(text) else { throw .badWebhook("the URL has no host") }
        guard !target.isEncrypted || BuildTraits.hasTLS else { throw .badWebhook(BuildTraits.noTLS) }
        self.target = target
        self.name = "\(scheme)://\(host)" + (url.port.map { ":\($0)" } ?? "")
    }
}
