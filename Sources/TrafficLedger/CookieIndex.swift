import TrafficModel

/// The sockets of a ledger by their cookies, which is how a report names a socket.
///
/// Kept where sockets come and go. A report then costs the same however many sockets there are.
struct CookieIndex: Codable {
    /// The serial of the one socket with this cookie.
    private(set) var single: [UInt64: UInt64] = [:]
    /// The serials of several sockets with the same cookie (MPTCP). Such a cookie names no socket.
    private(set) var several: [UInt64: Set<UInt64>] = [:]

    /// - Returns: `nil` if no socket has the cookie, or several have it.
    subscript(cookie: SocketCookie) -> UInt64? { self.single[cookie.rawValue] }

    /// - Parameter serial: A socket that is not here.
    mutating func add(_ cookie: SocketCookie, of serial: UInt64) {
        let cookie = cookie.rawValue
        // A cookie of 0 is unknown.
        guard cookie != 0 else { return }
        if self.several[cookie]?.insert(serial) != nil { return }
        guard let other = self.single.updateValue(serial, forKey: cookie) else { return }
        self.single[cookie] = nil
        self.several[cookie] = [other, serial]
    }

    /// - Parameter serial: A socket that was added with this cookie.
    mutating func remove(_ cookie: SocketCookie, of serial: UInt64) {
        let cookie = cookie.rawValue
        guard var serials = self.several.removeValue(forKey: cookie) else {
            self.single[cookie] = nil
            return
        }
        serials.remove(serial)
        if serials.count == 1 { self.single[cookie] = serials.first } else { self.several[cookie] = serials }
    }
}
